package webhook

import (
	"bytes"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/expr"
)

// maxHeader is how much of a header's value becomes a parameter, in bytes.
const maxHeader = 4 << 10

// decode reads a body: JSON, or a form whose field payload is JSON (GitHub's other choice). An empty one is an empty
// object. A body that begins like JSON is never a form, whatever its type: curl labels all bodies as forms.
func decode(body []byte, contentType string) (any, error) {
	kind, _, err := mime.ParseMediaType(contentType)
	start := bytes.TrimSpace(body)
	if err == nil && kind == "application/x-www-form-urlencoded" && !bytes.HasPrefix(start, []byte("{")) && !bytes.HasPrefix(start, []byte("[")) {
		form, err := url.ParseQuery(string(body))
		if err != nil || form.Get("payload") == "" {
			return nil, stepwell.Invalid("send JSON", "the form has no field payload")
		}
		body = []byte(form.Get("payload"))
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return map[string]any{}, nil
	}
	v, err := expr.Decode(body)
	if err != nil {
		return nil, &stepwell.Error{Code: stepwell.CodeInvalid, Message: "the body is not JSON", Hint: "send a JSON object with Content-Type: application/json", Err: err}
	}
	return v, nil
}

// payload is the payload of a body: the member payload of an object that has one (budpipeline §4.3), else the whole
// body. Forms of other senders have no such member.
func (w *Webhook) payload(body any) any {
	object, _ := body.(map[string]any)
	if inner, is := object["payload"].(map[string]any); is && w.PayloadParam == "" && (w.Auth == AuthSecret || w.Auth == AuthHMAC || w.Auth == AuthNone) {
		return inner
	}
	return body
}

// values are the values for parameters. Header names that the webhook passes on cannot come from the payload.
func (w *Webhook) values(body, payload any) map[string]any {
	if w.PayloadParam != "" {
		return map[string]any{w.PayloadParam: body}
	}
	object, ok := payload.(map[string]any)
	if !ok {
		return map[string]any{"payload": payload}
	}
	if len(w.Headers) == 0 {
		return object
	}
	values := maps.Clone(object)
	for _, name := range w.Headers {
		delete(values, headerParam(name))
	}
	return values
}

// headerParam is the parameter that a header becomes.
func headerParam(name string) string {
	return "header_" + strings.ReplaceAll(strings.ToLower(name), "-", "_")
}

// headers are the parameters that the headers of a delivery become.
func (w *Webhook) headers(header http.Header) map[string]any {
	all := map[string]any{}
	for _, name := range w.Headers {
		if list := header.Values(name); len(list) > 0 {
			text := strings.Join(list, ", ")
			all[headerParam(name)] = strings.ToValidUTF8(text[:min(len(text), maxHeader)], "\uFFFD")
		}
	}
	return all
}
