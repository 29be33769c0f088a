package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store"
)

// PostgreSQL's codes of errors that are looked at.
const (
	uniqueViolation   = "23505"
	notNullViolation  = "23502"
	noPartition       = "23514" // a check violation, which a missing partition is
	divisionByZero    = "22012"
	undefinedTable    = "42P01"
	undefinedColumn   = "42703"
	serialization     = "40001"
	deadlock          = "40P01"
	completionUnknown = "40003"
	lockNotAvailable  = "55P03"
	queryCanceled     = "57014"
	readOnly          = "25006"
	programLimit      = "54000"
	invalidPassword   = "28P01"
	invalidAuth       = "28000"
	noDatabase        = "3D000"
	noPrivilege       = "42501"
)

// sqlstate is PostgreSQL's own code of an error, "" if it is not one of PostgreSQL's.
func sqlstate(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

// again reports whether the same transaction, tried again at once, may succeed: others were in its way.
func again(err error) bool {
	switch sqlstate(err) {
	case serialization, deadlock:
		return true
	}
	return false
}

// fault explains an error of PostgreSQL and names the remedy. Stepwell's own errors pass through, others are wrapped with
// the operation.
func fault(op string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*stepwell.Error](err); ok {
		return err
	}
	code := sqlstate(err)
	for _, f := range faults {
		if code != "" && strings.HasPrefix(code, f.sqlstate) {
			if f.code == stepwell.CodeUnavailable {
				return store.Away(op, f.message, f.hint, err)
			}
			return &stepwell.Error{Code: f.code, Message: op + ": " + f.message, Hint: f.hint, Err: err}
		}
	}
	if code == "" && lost(err) {
		return store.Away(op, "the PostgreSQL server cannot be reached", "check that it runs, and the network; nothing that was reported as done is lost", err)
	}
	return fmt.Errorf("%s: %w", op, err)
}

// lost reports whether an error is the network's or the connection's.
func lost(err error) bool {
	if errors.Is(err, context.Canceled) {
		return false
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*unknownError](err); ok {
		return true
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, context.DeadlineExceeded) ||
		pgconn.SafeToRetry(err) || strings.Contains(err.Error(), "conn closed")
}

// faults by the beginnings of codes, the more special ones first.
var faults = []struct {
	sqlstate      string
	code          stepwell.Code
	message, hint string
}{
	{serialization, stepwell.CodeUnavailable, "other transactions were in the way", "try again"},
	{deadlock, stepwell.CodeUnavailable, "other transactions were in the way", "try again"},
	{completionUnknown, stepwell.CodeUnavailable, "the server does not know whether the transaction was committed", "try again"},
	{lockNotAvailable, stepwell.CodeUnavailable, "another transaction holds a lock", "try again"},
	{queryCanceled, stepwell.CodeUnavailable, "the server has cancelled the statement", "raise statement_timeout, or see what slows the server down"},
	{readOnly, stepwell.CodeUnavailable, "the server takes no writes: it is a standby, or has been demoted", "let the address lead to the primary"},
	{"25P03", stepwell.CodeUnavailable, "the transaction waited too long for this process", "it will be retried"},
	{"57P", stepwell.CodeUnavailable, "the server is starting or shutting down", "wait for it"},
	{"53100", stepwell.CodeUnavailable, "the server's disk is full", "free some space; nothing that was reported as done is lost"},
	{"53", stepwell.CodeUnavailable, "the server lacks connections, memory or disk", "raise max_connections, or see what uses them"},
	{"58", stepwell.CodeUnavailable, "the server's disk reports an error", "see the server's log"},
	{"08", stepwell.CodeUnavailable, "the connection was lost", "check the network"},
	{invalidPassword, stepwell.CodeUnavailable, "the server refuses user or password", "check them"},
	{invalidAuth, stepwell.CodeUnavailable, "the server refuses the user", "check user, pg_hba.conf and sslmode"},
	{noDatabase, stepwell.CodeUnavailable, "the database does not exist", "create it: createdb NAME"},
	{noPrivilege, stepwell.CodeInvalid, "the user may not do that", "let it own the schema"},
	{"XX", stepwell.CodeInternal, "the server reports a damaged database", "see its log; restore a copy"},
	{programLimit, stepwell.CodeLimit, "a value is larger than PostgreSQL takes", "keep large values in files"},
}
