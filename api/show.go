package api

import (
	"encoding/json"
	"slices"

	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/secret"
)

// Everything that comes from pipelines passes here before it is shown: sealed values become ***, and so does what is
// known to be secret. What the database has is redacted already; this is the second lock.

// text is a text as it may be shown. execution is the id of the one that it belongs to, "" for none.
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

// hidden is a Problem as it may be shown: errors quote what they are about.
func (s *server) hidden(p *Problem) *Problem {
	out := *p
	out.Message, out.Hint, out.Details = s.text("", p.Message), s.text("", p.Hint), slices.Clone(p.Details)
	for i := range out.Details {
		d := &out.Details[i]
		d.Location, d.Message, d.Hint = s.text("", d.Location), s.text("", d.Message), s.text("", d.Hint)
	}
	return &out
}

func (s *server) failure(execution string, f *engine.Failure) *Failure {
	if f == nil {
		return nil
	}
	return &Failure{Code: f.Code, Message: s.text(execution, f.Message), Hint: s.text(execution, f.Hint), Step: f.Step}
}
