package stream

import "encoding/json"

// Secrets redacts secrets in files that a segment leaves; implemented by package secret.
type Secrets interface {
	// Text hides them in a text, JSON in JSON.
	Text(execution, text string) string
	JSON(execution string, raw []byte) []byte
	// Seal takes them out of JSON that comes back to the same module, Open puts them back.
	Seal(execution string, raw []byte) []byte
	Open(execution string, raw []byte) ([]byte, error)
}

// noSecrets lets everything be written.
type noSecrets struct{}

func (noSecrets) Text(_, text string) string                { return text }
func (noSecrets) JSON(_ string, raw []byte) []byte          { return raw }
func (noSecrets) Seal(_ string, raw []byte) []byte          { return raw }
func (noSecrets) Open(_ string, raw []byte) ([]byte, error) { return raw, nil }

func (s *segment) hide(text string) string { return s.secrets.Text(s.call.Execution, text) }

func (s *segment) sealed(raw []byte) json.RawMessage { return s.secrets.Seal(s.call.Execution, raw) }

func (s *segment) opened(raw []byte) (json.RawMessage, error) {
	if len(raw) == 0 {
		return raw, nil
	}
	return s.secrets.Open(s.call.Execution, raw)
}
