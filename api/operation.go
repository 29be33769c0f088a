package api

import (
	"github.com/stepwell/stepwell/access"
)

// public is the role of operations that anybody may call, because they tell nothing or check a secret of their own.
const public access.Role = 0

// flags of operations.
type flags uint8

const (
	changes flags = 1 << iota // goes into the audit log
	once                      // takes Idempotency-Key
	streams                   // lasts as long as the client wants: no time limit
	creates                   // is answered 201, or 200 for a repetition
	large                     // its body may be a whole document
)

// operation is one row of the table: everything about an operation but its shapes and its code.
type operation struct {
	id      string // also the action in the audit log
	method  string
	path    string
	role    access.Role
	flags   flags
	summary string
}

func (o *operation) is(f flags) bool { return o.flags&f != 0 }

const prefix = "/api/v1"

// operations is the one table of what there is, and who may. Its order is that of the description.
func operations() []operation {
	const viewer, operator, editor, admin = access.Viewer, access.Operator, access.Editor, access.Admin
	return []operation{
		{"execution.list", "GET", prefix + "/executions", viewer, 0, "Lists executions, newest first, without results"},
		{"execution.get", "GET", prefix + "/executions/{execution_id}", viewer, 0, "Shows an execution with its steps"},
		{"execution.steps", "GET", prefix + "/executions/{execution_id}/steps", viewer, 0, "Lists the steps of an execution"},
		{"execution.logs", "GET", prefix + "/executions/{execution_id}/logs", viewer, 0, "Lists log lines of an execution"},
		{"execution.history", "GET", prefix + "/executions/{execution_id}/history", viewer, 0, "Lists what happened to the steps: queued, started, completed …"},
		{"execution.definition", "GET", prefix + "/executions/{execution_id}/definition", viewer, 0, "Shows the definition that the execution runs, as it was when it began"},
		{"execution.cancel", "POST", prefix + "/executions/{execution_id}/cancel", operator, changes, "Stops an execution; harmless when it has ended"},
		{"execution.pause", "POST", prefix + "/executions/{execution_id}/pause", operator, changes, "Lets running steps finish and starts no others"},
		{"execution.resume", "POST", prefix + "/executions/{execution_id}/resume", operator, changes, "Goes on after a pause"},
		{"execution.retry", "POST", prefix + "/executions/{execution_id}/retry", operator, changes | creates | once, "Starts a new execution that takes over what completed"},
		{"execution.restart", "POST", prefix + "/executions/{execution_id}/restart", operator, changes, "Runs a step and all after it again, in place"},
		{"execution.restart.preview", "GET", prefix + "/executions/{execution_id}/restart/preview", viewer, 0, "Lists the steps that a restart would run again"},
		{"action.list", "GET", prefix + "/actions", viewer, 0, "Lists the actions"},
		{"action.get", "GET", prefix + "/actions/{type}", viewer, 0, "Describes an action"},
		{"module.list", "GET", prefix + "/modules", viewer, 0, "Lists the stream modules"},
		{"module.get", "GET", prefix + "/modules/{type}", viewer, 0, "Describes a stream module"},
		{"steps.get", "GET", prefix + "/pipeline/{execution_id}", viewer, 0, "Shows an execution in the words of pipeline-steps"},
		{"steps.retry", "POST", prefix + "/pipeline/{execution_id}/retry", operator, changes, "Goes on with a failed execution in place, in the words of pipeline-steps"},
		{"health", "GET", prefix + "/health", public, 0, "Says that the service is up"},
		{"ready", "GET", prefix + "/ready", public, 0, "Says whether the service can take work"},
	}
}
