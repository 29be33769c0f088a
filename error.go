package stepwell

import (
	"errors"
	"fmt"
)

// Code is the kind of an error; surfaces map it to exit codes and HTTP statuses.
type Code string

// The codes.
const (
	CodeInvalid     Code = "invalid"     // the input is wrong; the same input fails again
	CodeNotFound    Code = "not_found"   // the thing named does not exist
	CodeConflict    Code = "conflict"    // the thing exists already, or has changed meanwhile
	CodeUnavailable Code = "unavailable" // a dependency is away; a retry may help
	CodeTimeout     Code = "timeout"     // a time limit passed
	CodeCancelled   Code = "cancelled"   // a stop was requested
	CodeLimit       Code = "limit"       // a configured limit was reached
	CodeFailed      Code = "failed"      // the work itself failed
	CodePanic       Code = "panic"       // a handler panicked
	CodeLost        Code = "lost"        // the worker died while the step ran
	CodeSkipped     Code = "skipped"     // the work chose not to run
	CodeInternal    Code = "internal"    // a fault of Stepwell itself
	// CodeNotReplaced: a run had no data to replace the existing data with (semantics §8, Writing).
	CodeNotReplaced Code = "not_replaced"

	CodeUnauthenticated Code = "unauthenticated" // the caller is unknown
	CodeForbidden       Code = "forbidden"       // the caller is known and not permitted
	CodeDenied          Code = "denied"          // a policy does not allow it, or it cannot be done safely
)

// Error is an error for users: the failure, and the remedy.
type Error struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
	Err     error  `json:"-"`
}

// Errorf makes an Error with a code. The hint names the remedy and may be empty; the message is formatted as by
// fmt.Sprintf.
func Errorf(code Code, hint, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...), Hint: hint}
}

// Invalid makes an Error for input that is wrong and will be wrong again.
func Invalid(hint, format string, args ...any) *Error {
	return Errorf(CodeInvalid, hint, format, args...)
}

func (e *Error) Error() string {
	msg := e.Message
	if e.Err != nil {
		if msg != "" {
			msg += ": "
		}
		msg += e.Err.Error()
	}
	return msg
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// CodeOf is the code of the first Error in err's chain, CodeInternal for any other error and ""
// for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return CodeInternal
}

// HintOf is the hint of the first Error in err's chain that has one.
func HintOf(err error) string {
	for err != nil {
		e, ok := errors.AsType[*Error](err)
		if !ok {
			return ""
		}
		if e.Hint != "" {
			return e.Hint
		}
		err = e.Err
	}
	return ""
}
