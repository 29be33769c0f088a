package app

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/stepwell/stepwell/access"
	"github.com/stepwell/stepwell/pipeline"
	"github.com/stepwell/stepwell/store"
)

// triggered writes a trigger's start into the audit log: its author and the caller or event behind it. Starts through
// the API have an audit entry already and get no second one.
func (s *Server) triggered(ctx context.Context, in pipeline.Launch, out *pipeline.Launched) {
	p := access.Of(ctx)
	if in.Trigger == "webhook" || p.Role != 0 && !strings.HasPrefix(in.Actor, "event:") {
		return
	}
	detail := map[string]any{"trigger": in.Job}
	for name, value := range map[string]string{"asked_by": p.Actor(), "because_of": in.From} {
		if value != "" {
			detail[name] = value
		}
	}
	if len(in.Authors) > 0 {
		detail["written_by"] = in.Authors
	}
	e := store.AuditEntry{Actor: in.Actor, Role: in.Role, Action: "execution.start", Object: out.Execution, Result: "ok"}
	var err error
	if e.Detail, err = json.Marshal(detail); err == nil {
		err = s.recorder.Record(ctx, e)
	}
	if err != nil {
		s.log.ErrorContext(ctx, "the audit log was not written", "action", e.Action, "actor", e.Actor, "execution", e.Object, "error", err)
	}
}
