package action

import (
	"bytes"
	"encoding/json"

	"github.com/stepwell/stepwell"
)

// Outputs turns a Handler's result into the stored JSON object: {} for nil, otherwise the value's JSON. A value that
// does not marshal to an object, or an invalid RawMessage, is CodeInvalid and permanent (Fail): another attempt would
// return the same.
func Outputs(value any) (json.RawMessage, error) {
	if value == nil {
		return json.RawMessage("{}"), nil
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, Fail(&stepwell.Error{Code: stepwell.CodeInvalid, Message: "outputs cannot be written as JSON", Err: err})
	}
	if bytes.Equal(raw, []byte("null")) { // a nil map, slice or pointer
		return json.RawMessage("{}"), nil
	}
	if raw[0] != '{' {
		return nil, Fail(stepwell.Invalid("return a map or a struct, for example {\"result\": …}", "outputs are not a JSON object"))
	}
	return raw, nil
}
