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
// object. What begins as JSON does is no form, whatever its type says: curl calls all that it sends one.
func decode(body []byte, contentType string) (any, error) {
	kind, _, err := mime.ParseMediaType(contentType)
	start := bytes.TrimSpace(body)
	if err == nil && kind == "application/x-www-form-urlencoded" && !bytes.HasPrefix(start, []byte("{")) && !bytes.HasPrefix(start, []byte("[")) {
		form, err := url.ParseQuery(string(body))
		if err != nil || form.Get("payload") == "" {
			return nil, invalid("send JSON", "the form has no field payload")
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

// values are the parameters of an execution: the webhook's own, under the payload's, under the headers.
func (w *Webhook) values(body any, header http.Header) map[string]any {
	all := map[string]any{}
	maps.Copy(all, w.Params)
	object, ok := body.(map[string]any)
	if inner, is := object["payload"].(map[string]any); is && w.PayloadParam == "" && (w.Auth == AuthSecret || w.Auth == AuthHMAC || w.Auth == AuthNone) {
		object = inner // budpipeline §4.3
	}
	switch {
	case w.PayloadParam != "":
		all[w.PayloadParam] = body
	case ok:
		maps.Copy(all, object)
	default:
		all["payload"] = body
	}
	for _, name := range w.Headers {
		if list := header.Values(name); len(list) > 0 {
			text := strings.Join(list, ", ")
			all["header_"+strings.ReplaceAll(strings.ToLower(name), "-", "_")] = strings.ToValidUTF8(text[:min(len(text), maxHeader)], "\uFFFD")
		}
	}
	return all
}
