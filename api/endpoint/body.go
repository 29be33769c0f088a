package endpoint

import (
	"errors"
	"io"
	"net/http"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// readBody reads the request's body into the field Body of in. It returns the status of an answer that tells what is wrong: with the
// problems found, or with an error.
func (s *server) readBody(hc huma.Context, in reflect.Value, path *huma.PathBuffer, found *huma.ValidateResult) (status int, err error) {
	status = http.StatusUnprocessableEntity
	_ = hc.SetReadDeadline(time.Time{}) // the API bounds the time and the size of bodies itself
	data, err := io.ReadAll(hc.BodyReader())
	switch {
	case err != nil:
		return http.StatusInternalServerError, errors.New("cannot read request body")
	case len(data) == 0 && s.op.RequestBody.Required:
		return http.StatusBadRequest, errors.New("request body is required")
	case len(data) == 0:
		return status, nil
	}
	form, before := hc.Header("Content-Type"), len(found.Errors)
	if form == "" {
		form = "application/json"
	}
	var parsed any
	if err := s.api.Unmarshal(form, data, &parsed); err != nil {
		found.Errors = append(found.Errors, mismatch(data, err))
		if errors.Is(err, huma.ErrUnknownContentType) {
			return http.StatusUnsupportedMediaType, nil
		}
		return http.StatusBadRequest, nil
	}
	path.Reset()
	path.Push("body")
	if huma.Validate(s.api.OpenAPI().Components.Schemas, s.body, path, huma.ModeWriteToServer, parsed, found); len(found.Errors) > before {
		return status, nil
	}
	if err := s.api.Unmarshal(form, data, in.FieldByName("Body").Addr().Interface()); err != nil {
		found.Errors = append(found.Errors, mismatch(data, err))
	}
	return status, nil
}

// mismatch is the error of a body that cannot be read.
func mismatch(data []byte, err error) error {
	return &huma.ErrorDetail{Location: "body", Message: err.Error(), Value: string(data)}
}
