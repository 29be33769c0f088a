package api

import (
	"encoding/json"
	"slices"

	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/secret"
)

// Everything that comes from pipelines is redacted here before it is shown: sealed values and known secrets become ***.
// The database is redacted already; this is the second lock.

// text redacts a text. execution is the id of its execution, "" for none.
func (s *server) text(execution, text string) string {
	text = secret.MaskText(text)
	if s.o.Redact != nil {
		text = s.o.Redact.Text(execution, text)
	}
	return text
}

// json is JSON as it may be shown.
func (s *server) json(execution string, raw []byte) json.RawMessage {
	if len(raw) == 0 {
		return nil
	}
	raw = secret.Mask(raw)
	if s.o.Redact != nil {
		raw = s.o.Redact.JSON(execution, raw)
	}
	return raw
}

// hidden redacts a Problem: errors quote their input.
func (s *server) hidden(p *Problem) *Problem {
	out := *p
	out.Message, out.Hint, out.Details = s.text("", p.Message), s.text("", p.Hint), slices.Clone(p.Details)
	for i := range out.Details {
		d := &out.Details[i]
		d.Path, d.Message, d.Hint = s.text("", d.Path), s.text("", d.Message), s.text("", d.Hint)
	}
	return &out
}

func (s *server) failure(execution string, f *engine.Failure) *Failure {
	if f == nil {
		return nil
	}
	return &Failure{Code: f.Code, Message: s.text(execution, f.Message), Hint: s.text(execution, f.Hint), Step: f.Step}
}
