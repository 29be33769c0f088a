package api

import (
	"context"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/desk/wire"
)

// Workers are those that run steps: the server's own, and those in other processes, whose calls it serves.
type Workers interface {
	http.Handler
	List() []Worker
	// Drain has a worker finish what it holds and end. CodeNotFound, CodeConflict.
	Drain(name string) error
}

// Worker runs steps.
type Worker struct {
	Name        string   `json:"name"`
	Version     string   `json:"version"`
	Local       bool     `json:"local" doc:"The server's own."`
	Actions     []string `json:"actions" nullable:"false"`
	Queues      []string `json:"queues" nullable:"false" doc:"Those it serves; empty: all."`
	Concurrency int      `json:"concurrency" doc:"How many steps it runs at once."`
	Held        int      `json:"held" doc:"How many it has."`
	Seen        Time     `json:"seen_at" doc:"When it was last heard of."`
	Secrets     bool     `json:"secrets" doc:"It may be given secrets: its connection is encrypted, or within the machine."`
	Draining    bool     `json:"draining" doc:"It gets no more."`
}

// WorkerList lists workers.
type WorkerList struct {
	Workers []Worker `json:"workers" nullable:"false"`
}

// Plugin is a program beside the server that brings actions, started and watched by it.
type Plugin struct {
	Name        string   `json:"name"`
	State       string   `json:"state" enum:"starting,running,waiting,failing,stopped" doc:"waiting: it has ended and is started again; failing: it has ended five times within a minute, or before it had joined."`
	PID         int      `json:"pid,omitempty" doc:"Of its process."`
	Since       Time     `json:"since" doc:"Since when it has been in the state."`
	Restarts    int      `json:"restarts"`
	Error       string   `json:"error,omitempty" doc:"How it ended last, while it does not run."`
	Version     string   `json:"version,omitempty" doc:"What the program says."`
	Worker      string   `json:"worker,omitempty" doc:"Its name as a worker."`
	Concurrency int      `json:"concurrency" doc:"How many steps it runs at once."`
	Held        int      `json:"held" doc:"How many it has."`
	Actions     []string `json:"actions" nullable:"false"`
}

// PluginList lists plugins.
type PluginList struct {
	Plugins []Plugin `json:"plugins" nullable:"false"`
}

// noWorkers are those of a server that serves none.
type noWorkers struct{}

func (noWorkers) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, `{"code":"unavailable","message":"this server serves no workers","hint":""}`, http.StatusServiceUnavailable)
}

func (noWorkers) List() []Worker { return nil }

func (noWorkers) Drain(name string) error {
	return stepwell.Errorf(stepwell.CodeNotFound, "", "no worker %s", stepwell.Clip(name, 60))
}

// stepPath names a step in the path of a worker's call.
type stepPath struct {
	Step string `path:"step_id" maxLength:"300" doc:"{execution_id}:{index}, as the task has it."`
}

type outputsPath struct {
	stepPath
	Key string `path:"key" maxLength:"600" doc:"Of a step of the same execution."`
}

// workers are the operations of workers and on them. The calls of the protocol are served by what speaks it; here they have
// their role and their description (docs/workers.md says more).
func (s *server) workers() {
	s.nameProtocol()
	handle(s, "queue", s.queue)
	handle(s, "worker.list", func(context.Context, *struct{}) (*answer[WorkerList], error) {
		return reply(WorkerList{append([]Worker{}, s.o.Workers.List()...)}, nil)
	})
	handle(s, "plugin.list", func(context.Context, *struct{}) (*answer[PluginList], error) {
		return reply(PluginList{append([]Plugin{}, s.o.Plugins()...)}, nil)
	})
	handle(s, "worker.drain", func(_ context.Context, in *struct {
		Name string `path:"name" maxLength:"200"`
	}) (*struct{}, error) {
		return nil, s.o.Workers.Drain(in.Name)
	})
	protocol[struct{}, wire.Join, wire.Joined](s, "worker.join")
	protocol[struct{}, wire.Turn, wire.Turned](s, "worker.turn")
	protocol[struct{}, wire.Claim, wire.Task](s, "worker.claim")
	protocol[stepPath, wire.Spawn, struct{}](s, "worker.spawn")
	protocol[stepPath, wire.Log, struct{}](s, "worker.log")
	protocol[stepPath, wire.Progress, struct{}](s, "worker.progress")
	protocol[stepPath, wire.Memo, wire.Value](s, "worker.memo")
	protocol[stepPath, wire.Own, struct{}](s, "worker.own")
	protocol[stepPath, wire.Callback, wire.Address](s, "worker.callback")
	protocol[stepPath, wire.Media, wire.MediaPart](s, "worker.media")
	protocol[stepPath, wire.Outputs, wire.Value](s, "worker.data")
	protocol[outputsPath, wire.Outputs, wire.Value](s, "worker.outputs")
	handle(s, "worker.stream", func(context.Context, *struct{}) (*streamed, error) {
		return &streamed{s.passOn(s.o.Workers)}, nil
	}, func(op *huma.Operation) {
		op.Description = "A WebSocket. Each text message is a WorkerRequest {no, call, body}, where call is what follows /api/v1/worker/ and body is that call's; a WorkerResponse {no, status, body} answers it, in any order."
		op.Responses["101"] = &huma.Response{Description: "The WebSocket"}
		delete(op.Responses, "200")
		s.schemaOf(reflect.TypeFor[wire.Request]())
		s.schemaOf(reflect.TypeFor[wire.Response]())
	})
}

// nameProtocol keeps the names of the protocol's schemas apart from those of the others.
func (s *server) nameProtocol() {
	for _, t := range []reflect.Type{reflect.TypeFor[wire.Action](), reflect.TypeFor[wire.Join](), reflect.TypeFor[wire.Joined](), reflect.TypeFor[wire.ID](), reflect.TypeFor[wire.Turn](),
		reflect.TypeFor[wire.Turned](), reflect.TypeFor[wire.Refused](), reflect.TypeFor[wire.Task](), reflect.TypeFor[wire.Outcome](), reflect.TypeFor[wire.Error](), reflect.TypeFor[wire.Wait](),
		reflect.TypeFor[wire.Claim](), reflect.TypeFor[wire.Spawn](), reflect.TypeFor[wire.NewStep](), reflect.TypeFor[wire.Line](), reflect.TypeFor[wire.Log](), reflect.TypeFor[wire.Progress](),
		reflect.TypeFor[wire.Memo](), reflect.TypeFor[wire.Own](), reflect.TypeFor[wire.Callback](), reflect.TypeFor[wire.Address](), reflect.TypeFor[wire.Media](), reflect.TypeFor[wire.MediaPart](), reflect.TypeFor[wire.Outputs](), reflect.TypeFor[wire.Value](), reflect.TypeFor[wire.Request](), reflect.TypeFor[wire.Response]()} {
		s.names[t] = "Worker" + t.Name()
	}
}

// protocol describes a call of the protocol: I are its parameters, B is its body, A its answer.
func protocol[I, B, A any](s *server, id string) {
	handle(s, id, func(context.Context, *I) (*streamed, error) {
		return &streamed{s.passOn(s.o.Workers)}, nil
	}, func(op *huma.Operation) {
		content := func(t reflect.Type) map[string]*huma.MediaType {
			if t == reflect.TypeFor[struct{}]() {
				return map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{Type: "object"}}}
			}
			return map[string]*huma.MediaType{"application/json": {Schema: s.schemaOf(t)}}
		}
		op.RequestBody = &huma.RequestBody{Required: true, Content: content(reflect.TypeFor[B]())}
		op.Responses["200"] = &huma.Response{Description: "The answer", Content: content(reflect.TypeFor[A]())}
	})
}
