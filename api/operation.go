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
	streams                   // lasts as long as the client wants: no time limit
	creates                   // is answered 201, or 200 for a repetition
	large                     // its body may be a whole document
	waits                     // may wait for something: with wait_seconds in the query
	vital                     // is always answered: to any caller, at any rate
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

// OperationRole is what others may know of an operation: who may ask for it, and what it does to what is there.
type OperationRole struct {
	Role    access.Role
	Changes bool // it changes something, and goes into the audit log
	Creates bool // it only adds
}

// OperationOf finds an operation by its id, such as execution.start.
func OperationOf(id string) (OperationRole, bool) {
	for _, op := range operations() {
		if op.id == id {
			return OperationRole{op.role, op.is(changes), op.is(creates)}, true
		}
	}
	return OperationRole{}, false
}

func (o *operation) is(f flags) bool { return o.flags&f != 0 }

const prefix = "/api/v1"

// operations is the one table of all operations and their roles. Its order is that of the description.
func operations() []operation {
	const viewer, operator, editor, admin, worker = access.Viewer, access.Operator, access.Editor, access.Admin, access.Worker
	return []operation{
		{"execution.start", "POST", prefix + "/execute", operator, changes | creates | large, "Starts an execution of a schedule's job or a stored pipeline; of a definition or a single action for editors"},
		{"execution.list", "GET", prefix + "/executions", viewer, 0, "Lists executions, newest first, without results"},
		{"execution.get", "GET", prefix + "/executions/{execution_id}", viewer, waits, "Shows an execution with its steps; with wait_seconds, when it has ended"},
		{"execution.steps", "GET", prefix + "/executions/{execution_id}/steps", viewer, 0, "Lists the steps of an execution"},
		{"execution.logs", "GET", prefix + "/executions/{execution_id}/logs", viewer, 0, "Lists log lines of an execution"},
		{"execution.logs.histogram", "GET", prefix + "/executions/{execution_id}/logs/histogram", viewer, 0, "Counts the log lines of an execution by level, over its whole log"},
		{"execution.stream", "GET", prefix + "/executions/{execution_id}/logs/stream", viewer, streams, "Streams log lines and statuses over a WebSocket"},
		{"execution.events", "GET", prefix + "/executions/{execution_id}/events", viewer, streams, "Streams log lines and statuses as server-sent events"},
		{"stream", "GET", prefix + "/stream", viewer, streams, "Streams what changes in the lists of executions, approvals, schedules and workers, and in the progress of projects, as server-sent events"},
		{"search", "GET", prefix + "/search", viewer, 0, "Finds pipelines, executions by the beginning of their id, schedules, projects and steps"},
		{"execution.history", "GET", prefix + "/executions/{execution_id}/history", viewer, 0, "Lists what happened to the steps: queued, started, completed …"},
		{"execution.graph", "GET", prefix + "/executions/{execution_id}/graph", viewer, 0, "Shows an execution as a graph of few nodes with the states of the steps behind them"},
		{"execution.field", "GET", prefix + "/executions/{execution_id}/field", viewer, 0, "Gives all steps of an execution as columns, for pages that draw them"},
		{"execution.attempts", "GET", prefix + "/executions/{execution_id}/attempts", viewer, 0, "Lists the attempts of steps: when they were queued, began and ended, on which worker, and how"},
		{"execution.attempts.columns", "GET", prefix + "/executions/{execution_id}/attempts.columns", viewer, 0, "Gives the attempts of steps as columns, for pages that draw them"},
		{"execution.events.columns", "GET", prefix + "/executions/{execution_id}/events.columns", viewer, 0, "Gives all changes of an execution's steps as columns, for pages that replay it"},
		{"execution.field.stream", "GET", prefix + "/executions/{execution_id}/field/stream", viewer, streams, "Streams what changes in the columns of /field over a WebSocket"},
		{"execution.definition", "GET", prefix + "/executions/{execution_id}/definition", viewer, 0, "Shows the definition that the execution runs, as it was when it began"},
		{"execution.source", "GET", prefix + "/executions/{execution_id}/source", viewer, 0, "Shows the document that the execution runs as it was written, comments included, and the lines of its steps"},
		{"execution.compare", "GET", prefix + "/executions/{execution_id}/compare/{other_id}", viewer, 0, "Compares the steps of two executions by their keys"},
		{"execution.streams", "GET", prefix + "/executions/{execution_id}/streams", viewer, 0, "Shows the streams of an execution: items and rates of each module, and which one is the bottleneck"},
		{"execution.streams.failures", "GET", prefix + "/executions/{execution_id}/streams/failures", viewer, 0, "Groups the failed items of an execution by module and message, with examples"},
		{"execution.footprints", "GET", prefix + "/executions/{execution_id}/footprints", viewer, 0, "Gives the boxes of the items of an execution's streams as columns, for a map"},
		{"execution.footprints.items", "GET", prefix + "/executions/{execution_id}/footprints/items", viewer, 0, "Lists the items of an execution's streams that meet a box, and why failed ones have failed"},
		{"execution.footprints.item", "GET", prefix + "/executions/{execution_id}/footprints/item", viewer, 0, "Shows an item of an execution's streams as it stands in the file that it was written to or read from"},
		{"execution.why", "GET", prefix + "/executions/{execution_id}/why", viewer, 0, "Says why an execution or a step is in its state"},
		{"execution.what_if", "GET", prefix + "/executions/{execution_id}/what-if", viewer, 0, "Tells what would come of a restart, a retry, a cancel or an outcome, now or at a moment in the past, and does nothing"},
		{"execution.cancel", "POST", prefix + "/executions/{execution_id}/cancel", operator, changes, "Stops an execution; harmless when it has ended"},
		{"execution.pause", "POST", prefix + "/executions/{execution_id}/pause", operator, changes, "Lets running steps finish and starts no others"},
		{"execution.resume", "POST", prefix + "/executions/{execution_id}/resume", operator, changes, "Continues after a pause"},
		{"execution.retry", "POST", prefix + "/executions/{execution_id}/retry", operator, changes | creates, "Starts a new execution that takes over what completed"},
		{"execution.retry.preview", "GET", prefix + "/executions/{execution_id}/retry/preview", viewer, 0, "Tells what a retry would repeat and keep"},
		{"execution.restart", "POST", prefix + "/executions/{execution_id}/restart", operator, changes, "Runs a step and all after it again, in place"},
		{"execution.restart.preview", "GET", prefix + "/executions/{execution_id}/restart/preview", viewer, 0, "Tells what a restart would repeat and keep"},

		{"pipeline.create", "POST", prefix + "/pipelines", editor, changes | creates | large, "Stores a new pipeline"},
		{"pipeline.list", "GET", prefix + "/pipelines", viewer, 0, "Lists stored pipelines"},
		{"pipeline.validate", "POST", prefix + "/pipelines/validate", viewer, large, "Says what is wrong with a pipeline"},
		{"pipeline.plan", "POST", prefix + "/pipelines/plan", viewer, large, "Shows a pipeline as a graph with what is wrong with it, where it names its steps, and what it may take"},
		{"pipeline.get", "GET", prefix + "/pipelines/{pipeline_id}", viewer, 0, "Shows a stored pipeline with its newest document"},
		{"pipeline.update", "PUT", prefix + "/pipelines/{pipeline_id}", editor, changes | large, "Stores the next version of a pipeline, or archives it"},
		{"pipeline.delete", "DELETE", prefix + "/pipelines/{pipeline_id}", editor, changes, "Removes a pipeline with its versions; executions stay"},
		{"pipeline.versions", "GET", prefix + "/pipelines/{pipeline_id}/versions", viewer, 0, "Lists the versions of a pipeline, newest first"},
		{"pipeline.version.usage", "GET", prefix + "/pipelines/{pipeline_id}/versions/{version}/usage", viewer, 0, "Tells what models have used in runs of a version"},
		{"pipeline.version", "GET", prefix + "/pipelines/{pipeline_id}/versions/{version}", viewer, 0, "Shows a version with its document"},
		{"pipeline.version.activate", "POST", prefix + "/pipelines/{pipeline_id}/versions/{version}/activate", editor, changes, "Makes a version the one that is started where none is named"},
		{"pipeline.version.archive", "POST", prefix + "/pipelines/{pipeline_id}/versions/{version}/archive", editor, changes, "Takes a version out of use; the active one cannot be"},
		{"pipeline.version.unarchive", "POST", prefix + "/pipelines/{pipeline_id}/versions/{version}/unarchive", editor, changes, "Takes a version into use again"},
		{"pipeline.partitions", "GET", prefix + "/pipelines/{pipeline_id}/partitions", viewer, 0, "Shows which partitions of a pipeline are done, stale, failed or missing"},
		{"pipeline.partitions.get", "GET", prefix + "/pipelines/{pipeline_id}/partitions/one", viewer, 0, "Shows in which state one partition is, why, and which execution made it"},
		{"pipeline.partitions.compare", "POST", prefix + "/pipelines/partitions", viewer, large, "Shows the same as if a document were the pipeline's active version"},
		{"pipeline.partitions.start", "POST", prefix + "/pipelines/{pipeline_id}/partitions/start", operator, changes | creates, "Starts an execution for a partition, once for each that has tried before"},
		{"pipeline.matrix", "GET", prefix + "/pipelines/{pipeline_id}/matrix", viewer, 0, "Shows in which of the last executions of a pipeline which steps failed"},
		{"pipeline.diff", "GET", prefix + "/pipelines/{pipeline_id}/diff", viewer, 0, "Says what changed between two versions"},

		{"schedule.create", "POST", prefix + "/scheduler/jobs", editor, changes | creates, "Schedules a job"},
		{"schedule.list", "GET", prefix + "/scheduler/jobs", viewer, 0, "Lists jobs"},
		{"schedule.get", "GET", prefix + "/scheduler/jobs/{job_id}", viewer, 0, "Shows a job"},
		{"schedule.update", "PUT", prefix + "/scheduler/jobs/{job_id}", editor, changes, "Changes a job"},
		{"schedule.delete", "DELETE", prefix + "/scheduler/jobs/{job_id}", editor, changes, "Removes a job; executions stay"},
		{"schedule.pause", "POST", prefix + "/scheduler/jobs/{job_id}/pause", operator, changes, "Keeps a job from firing"},
		{"schedule.resume", "POST", prefix + "/scheduler/jobs/{job_id}/resume", operator, changes, "Lets a job fire again"},
		{"schedule.trigger", "POST", prefix + "/scheduler/jobs/{job_id}/trigger", operator, changes | creates, "Starts a job now"},
		{"schedule.next", "GET", prefix + "/scheduler/jobs/{job_id}/next-runs", viewer, 0, "Lists the next times of a job"},
		{"schedule.backfill", "POST", prefix + "/scheduler/jobs/{job_id}/backfill", operator, changes, "Fires a job for the times of a range that has passed"},
		{"schedule.firings", "GET", prefix + "/scheduler/jobs/{job_id}/firings", viewer, 0, "Lists what became of the times of a job: ran, caught up, dropped, refused"},
		{"schedule.fires", "GET", prefix + "/scheduler/fires", viewer, 0, "Lists the times to come of all jobs within a range, and the changes of clocks"},
		{"schedule.preview", "POST", prefix + "/scheduler/preview", viewer, 0, "Tells in words when a schedule that is being written fires, and its next times"},

		{"webhook.create", "POST", prefix + "/webhooks", editor, changes | creates, "Makes a webhook; its secret is shown once"},
		{"webhook.list", "GET", prefix + "/webhooks", viewer, 0, "Lists webhooks"},
		{"webhook.validate", "POST", prefix + "/webhooks/validate", operator, 0, "Says whether a secret is that of a webhook"},
		{"webhook.get", "GET", prefix + "/webhooks/{webhook_id}", viewer, 0, "Shows a webhook"},
		{"webhook.update", "PUT", prefix + "/webhooks/{webhook_id}", editor, changes, "Changes a webhook"},
		{"webhook.delete", "DELETE", prefix + "/webhooks/{webhook_id}", editor, changes, "Removes a webhook; executions stay"},
		{"webhook.rotate", "POST", prefix + "/webhooks/{webhook_id}/rotate-secret", editor, changes, "Gives a webhook a new secret"},
		{"webhook.deliveries", "GET", prefix + "/webhooks/{webhook_id}/deliveries", editor, 0, "Lists the last deliveries of a webhook and what became of them, newest first, without bodies"},
		{"webhook.test", "POST", prefix + "/webhooks/{webhook_id}/test", operator, changes | creates, "Starts what the webhook says with a payload of the caller, who needs no secret"},
		{"webhook.trigger", "POST", prefix + "/webhooks/{webhook_id}/trigger", public, creates, "Starts what the webhook says; the caller proves itself with the webhook's secret"},

		{"event.receive", "POST", prefix + "/events", operator, changes, "Takes an event: it ends steps that wait for its key, and starts what event triggers say"},
		{"event_trigger.create", "POST", prefix + "/event-triggers", editor, changes | creates, "Makes an event trigger"},
		{"event_trigger.list", "GET", prefix + "/event-triggers", viewer, 0, "Lists event triggers"},
		{"event_trigger.get", "GET", prefix + "/event-triggers/{trigger_id}", viewer, 0, "Shows an event trigger"},
		{"event_trigger.update", "PUT", prefix + "/event-triggers/{trigger_id}", editor, changes, "Changes an event trigger"},
		{"event_trigger.delete", "DELETE", prefix + "/event-triggers/{trigger_id}", editor, changes, "Removes an event trigger; executions stay"},

		{"project.create", "POST", prefix + "/projects", editor, changes | creates, "Creates a project, whose progress begins"},
		{"project.list", "GET", prefix + "/projects", viewer, 0, "Lists projects"},
		{"project.get", "GET", prefix + "/projects/{project_id}", viewer, 0, "Shows a project"},
		{"project.update", "PUT", prefix + "/projects/{project_id}", editor, changes, "Changes a project's name and tags"},
		{"project.tags", "GET", prefix + "/project-tags", viewer, 0, "Lists the tags of projects"},
		{"project.delete", "DELETE", prefix + "/projects/{project_id}", editor, changes, "Removes a project and its progress; executions stay"},
		{"project.progress", "GET", prefix + "/projects/{project_id}/progress", viewer, 0, "Tells how far a project is"},
		{"project.usage", "GET", prefix + "/projects/{project_id}/usage", viewer, 0, "Tells what models have used for the lessons of a project"},
		{"project.events", "GET", prefix + "/projects/{project_id}/events", viewer, streams, "Streams how far a project is, and its end, as server-sent events"},
		{"project.total", "PUT", prefix + "/projects/{project_id}/total", operator, changes, "Sets the number of items of a project"},
		{"project.status", "PUT", prefix + "/projects/{project_id}/status", operator, changes, "Sets the status of a project; nothing but a reset leaves DONE"},
		{"project.discovered", "POST", prefix + "/projects/{project_id}/discovered", operator, changes, "Says that all items are found: sets their number, and continues to PROCESSING or DONE"},
		{"project.items", "POST", prefix + "/projects/{project_id}/items", operator, 0, "Counts processed items of a project; not in the audit log"},
		{"project.reset", "POST", prefix + "/projects/{project_id}/reset", operator, changes, "Resets the progress of a project"},

		{"lesson.create", "POST", prefix + "/lessons", editor, changes | creates, "Creates a lesson of a project"},
		{"lesson.list", "GET", prefix + "/lessons", viewer, 0, "Lists lessons, of a project with project_id"},
		{"lesson.get", "GET", prefix + "/lessons/{lesson_id}", viewer, 0, "Shows a lesson"},
		{"lesson.update", "PUT", prefix + "/lessons/{lesson_id}", editor, changes, "Changes a lesson's name and tag"},
		{"lesson.delete", "DELETE", prefix + "/lessons/{lesson_id}", editor, changes, "Removes a lesson and its media; executions stay"},
		{"lesson.media", "GET", prefix + "/lessons/{lesson_id}/media", viewer, streams, "Gives the media of a lesson"},
		{"lesson.media.options", "OPTIONS", prefix + "/lessons/{lesson_id}/media", viewer, streams, "Says which extensions of tus there are, and how large a file may be"},
		{"lesson.media.set", "POST", prefix + "/lessons/{lesson_id}/media", editor, changes | streams, "Begins a resumable upload (tus), or takes a whole file, as a lesson's media"},
		{"lesson.media.delete", "DELETE", prefix + "/lessons/{lesson_id}/media", editor, changes, "Removes the media of a lesson"},
		{"lesson.uploads", "GET", prefix + "/lessons/{lesson_id}/uploads", viewer, 0, "Lists the unfinished uploads of a lesson"},
		{"lesson.usage", "GET", prefix + "/lessons/{lesson_id}/usage", viewer, 0, "Tells what models have used for a lesson"},
		{"upload.get", "HEAD", prefix + "/uploads/{upload_id}", viewer, streams, "Tells how much of an upload is stored (tus)"},
		{"upload.append", "PATCH", prefix + "/uploads/{upload_id}", editor, streams, "Stores more bytes of an upload (tus); the last ones make it the lesson's media. Not in the audit log"},
		{"upload.delete", "DELETE", prefix + "/uploads/{upload_id}", editor, changes | streams, "Ends an unfinished upload and removes its bytes (tus)"},
		{"pipeline_run.start", "POST", prefix + "/pipeline-runs", operator, changes | creates, "Starts a run of a pipeline for a lesson, or for all lessons of a project"},
		{"pipeline_run.preview", "POST", prefix + "/pipeline-runs/preview", operator, 0, "Tells what a start would do: which steps it would take over from an earlier run, which it would run, and why"},
		{"pipeline_run.list", "GET", prefix + "/pipeline-runs", viewer, 0, "Lists pipeline runs, newest first, without results and errors"},
		{"pipeline_run.queue", "GET", prefix + "/pipeline-runs/queue", viewer, 0, "Lists the runs that are queued or running, oldest first, without results and errors"},
		{"pipeline_run.events", "GET", prefix + "/pipeline-runs/events/queue", viewer, streams, "Streams the queue of pipeline runs as server-sent events"},
		{"pipeline_run.get", "GET", prefix + "/pipeline-runs/{run_id}", viewer, 0, "Shows a pipeline run with the results of its steps"},
		{"pipeline_run.restart", "POST", prefix + "/pipeline-runs/{run_id}/restart", operator, changes, "Runs a step of a pipeline run and all after it again"},
		{"pipeline_run.pause", "POST", prefix + "/pipeline-runs/{run_id}/pause", operator, changes, "Lets the running step finish and starts no other"},
		{"pipeline_run.stop", "POST", prefix + "/pipeline-runs/{run_id}/stop", operator, changes, "Pauses a pipeline run at once: the running step is cancelled and starts over with start"},
		{"pipeline_run.resume", "POST", prefix + "/pipeline-runs/{run_id}/start", operator, changes, "Continues with a paused pipeline run, or with a failed one from its first step that is not done"},

		{"approval.list", "GET", prefix + "/approvals", viewer, 0, "Lists decisions that steps wait for"},
		{"approval.get", "GET", prefix + "/approvals/{approval_id}", viewer, 0, "Shows a decision that a step waits for"},
		{"approval.approve", "POST", prefix + "/approvals/{approval_id}/approve", operator, changes, "Approves"},
		{"approval.reject", "POST", prefix + "/approvals/{approval_id}/reject", operator, changes, "Rejects"},
		{"callback", "POST", prefix + "/callbacks/{token}", public, 0, "Ends the step whose callback this is"},

		{"schema.get", "GET", prefix + "/schema", viewer, 0, "Gives the JSON Schema of pipelines, with the actions that this server has"},
		{"template.list", "GET", prefix + "/templates", viewer, 0, "Lists pipelines to begin with"},
		{"template.get", "GET", prefix + "/templates/{name}", viewer, 0, "Shows a pipeline to begin with"},
		{"action.list", "GET", prefix + "/actions", viewer, 0, "Lists the actions"},
		{"action.get", "GET", prefix + "/actions/{type}", viewer, 0, "Describes an action"},
		{"module.list", "GET", prefix + "/modules", viewer, 0, "Lists the stream modules"},
		{"module.get", "GET", prefix + "/modules/{type}", viewer, 0, "Describes a stream module"},

		{"queue", "GET", prefix + "/queue", viewer, 0, "Shows what waits and why: the queues of steps, and the executions that have not been admitted"},
		{"worker.list", "GET", prefix + "/workers", viewer, 0, "Lists the workers: the server's own, and those in other processes"},
		{"plugin.list", "GET", prefix + "/plugins", viewer, 0, "Lists the plugins: programs beside the server that bring actions"},
		{"cluster.create", "POST", prefix + "/clusters", admin, changes | creates, "Creates a Kubernetes cluster for steps; its kubeconfig is kept sealed"},
		{"cluster.list", "GET", prefix + "/clusters", viewer, 0, "Lists the Kubernetes clusters of the settings and those that were created, and how they are"},
		{"cluster.get", "GET", prefix + "/clusters/{cluster_id}", viewer, 0, "Shows a Kubernetes cluster, and how it is"},
		{"cluster.delete", "DELETE", prefix + "/clusters/{cluster_id}", admin, changes, "Deletes a created cluster on which no step waits for a job"},
		{"worker.drain", "POST", prefix + "/workers/{name}/drain", operator, changes, "Has a worker in another process finish what it holds, and end"},
		{"worker.join", "POST", prefix + "/worker/join", worker, streams, "Begins a worker's time with the server"},
		{"worker.turn", "POST", prefix + "/worker/turn", worker, streams, "Takes a worker's outcomes, and gives it tasks; may wait for them"},
		{"worker.stream", "GET", prefix + "/worker/stream", worker, streams, "The calls of a worker over a WebSocket"},
		{"worker.claim", "POST", prefix + "/worker/claim", worker, streams, "Says that an attempt begins; 409: it must not"},
		{"worker.spawn", "POST", prefix + "/worker/steps/{step_id}/spawn", worker, streams, "Adds steps"},
		{"worker.log", "POST", prefix + "/worker/steps/{step_id}/log", worker, streams, "Adds lines to the step's log"},
		{"worker.progress", "POST", prefix + "/worker/steps/{step_id}/progress", worker, streams, "Says how far the step is"},
		{"worker.memo", "POST", prefix + "/worker/steps/{step_id}/memo", worker, streams, "Records a value of the step for its next attempts, or reads one"},
		{"worker.own", "POST", prefix + "/worker/steps/{step_id}/own", worker, streams, "Makes work outside known, so that it is stopped if the attempt is"},
		{"worker.callback", "POST", prefix + "/worker/steps/{step_id}/callback", worker, streams, "Gives the address at which something outside can end the step"},
		{"worker.media", "POST", prefix + "/worker/steps/{step_id}/media", worker, streams, "Gives a part of the file of the lesson that the execution is about"},
		{"worker.data", "POST", prefix + "/worker/steps/{step_id}/outputs", worker, streams, "Gives the outputs of all steps of the execution, merged"},
		{"worker.outputs", "POST", prefix + "/worker/steps/{step_id}/outputs/{key}", worker, streams, "Gives the outputs of a step of the execution"},

		{"steps.get", "GET", prefix + "/pipeline/{execution_id}", viewer, 0, "Shows an execution in the words of pipeline-steps"},
		{"steps.retry", "POST", prefix + "/pipeline/{execution_id}/retry", operator, changes, "Continues with a failed execution in place, in the words of pipeline-steps"},

		{"health", "GET", prefix + "/health", public, vital, "Says that the service is up"},
		{"ready", "GET", prefix + "/ready", public, vital, "Says whether the service can take work"},
		{"healthz", "GET", "/healthz", public, vital, "The same as health, where probes expect it"},
		{"readyz", "GET", "/readyz", public, vital, "The same as ready, where probes expect it"},
		{"execution.stats", "GET", prefix + "/stats/executions", viewer, 0, "Tells how executions ended by minute, hour or day: counts by outcome, times of 50, 95 and 99 percent, cost"},
		{"execution.costs", "GET", prefix + "/stats/costs", viewer, 0, "Tells what executions that ended have cost by day, pipeline, project and step, and what of it retries cost"},
		{"execution.promises", "GET", prefix + "/stats/sla", viewer, 0, "Tells how long executions with an SLA took, which ones broke it, and which running ones will"},
		{"metrics", "GET", prefix + "/metrics", viewer, 0, "Counts executions and schedules"},
		{"metrics.prometheus", "GET", "/metrics", viewer, 0, "Metrics in Prometheus's text form"},

		{"me", "GET", prefix + "/me", viewer, 0, "Says who asks, and which role they have"},
		{"session.get", "GET", prefix + "/session", public, 0, "Says whether the caller is signed in, and how one signs in"},
		{"session.open", "POST", prefix + "/session", public, 0, "Signs a browser in: turns an API key or a token into a cookie"},
		{"session.close", "DELETE", prefix + "/session", public, 0, "Signs a browser out: removes the cookie"},
		{"auth.login", "GET", prefix + "/auth/login", public, 0, "Sends a browser to the OpenID Connect issuer to sign in"},
		{"auth.callback", "GET", prefix + "/auth/callback", public, 0, "Takes the issuer's answer, signs the browser in, and sends it to the page"},
		{"secret.list", "GET", prefix + "/secrets", admin, 0, "Lists secrets, without their values"},
		{"secret.set", "PUT", prefix + "/secrets/{name}", admin, changes, "Keeps a secret"},
		{"secret.delete", "DELETE", prefix + "/secrets/{name}", admin, changes, "Removes a secret"},
		{"key.create", "POST", prefix + "/keys", admin, changes | creates, "Makes an API key; its token is shown once"},
		{"key.list", "GET", prefix + "/keys", admin, 0, "Lists API keys"},
		{"key.get", "GET", prefix + "/keys/{key_id}", admin, 0, "Shows an API key"},
		{"key.revoke", "POST", prefix + "/keys/{key_id}/revoke", admin, changes, "Ends an API key, and keeps it in the list"},
		{"key.delete", "DELETE", prefix + "/keys/{key_id}", admin, changes, "Removes an API key"},
		{"policy.get", "GET", prefix + "/policy", admin, 0, "Shows which actions steps may use"},
		{"policy.set", "PUT", prefix + "/policy", admin, changes, "Says which actions steps may use"},
		{"audit.list", "GET", prefix + "/audit", admin, 0, "Lists who changed what, newest first"},
	}
}
