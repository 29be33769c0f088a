package action

import (
	"encoding/json"
	"errors"
)

type usedError struct {
	usage json.RawMessage
	err   error
}

func (e *usedError) Error() string { return e.err.Error() }
func (e *usedError) Unwrap() error { return e.err }

// Used says that a failed attempt has used what its service counts, so that it is paid like that of a success. Usage is
// what the output `usage` would have been, such as {"input_tokens": 12, "output_tokens": 3}. Of a deferral (Defer)
// nothing is counted.
func Used(usage any, err error) error {
	raw, merr := json.Marshal(map[string]any{"usage": usage})
	if err == nil || merr != nil { // what is no JSON cannot be counted
		return err
	}
	return &usedError{raw, err}
}

// UsedBy is the object {"usage": …} of the error of a failed attempt, nil if it names none (Used).
func UsedBy(err error) json.RawMessage {
	if e, ok := errors.AsType[*usedError](err); ok {
		return e.usage
	}
	return nil
}
