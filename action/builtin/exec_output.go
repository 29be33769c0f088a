package builtin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"unicode/utf8"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
)

const (
	maxOutputFile = 16 << 20 // bytes of the file STEPWELL_OUTPUT
	maxCapture    = 64 << 10 // bytes of standard output that become an output
)

var outputKey = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*$`)

// readOutputs makes the step's outputs of the program's output.
func readOutputs(path string, capture bool, code int, stdout *tail) (any, error) {
	content, err := readOutputFile(path)
	if err != nil {
		return nil, action.Fail(err)
	}
	outputs, err := parseOutputs(content)
	if err != nil {
		return nil, action.Fail(&stepwell.Error{Code: stepwell.CodeInvalid, Message: "the file STEPWELL_OUTPUT", Err: err,
			Hint: "write one JSON object, or lines key=value"})
	}
	if len(outputs) == 0 && capture {
		text, truncated := stdout.text()
		return map[string]any{"exit_code": code, "stdout": text, "stdout_truncated": truncated}, nil
	}
	if _, own := outputs["exit_code"]; !own {
		if outputs == nil {
			outputs = map[string]json.RawMessage{}
		}
		outputs["exit_code"] = json.RawMessage(fmt.Sprint(code))
	}
	return outputs, nil
}

// readOutputFile reads the file if it is still one: a program can put anything in its place, and a pipe
// would be read for ever.
func readOutputFile(path string) ([]byte, error) {
	if info, err := os.Lstat(path); err != nil {
		return nil, fmt.Errorf("the file STEPWELL_OUTPUT: %w", err)
	} else if !info.Mode().IsRegular() {
		return nil, notPlain()
	}
	f, err := openPlain(path)
	if errors.Is(err, fs.ErrInvalid) {
		return nil, notPlain()
	}
	if err != nil {
		return nil, fmt.Errorf("the file STEPWELL_OUTPUT: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("the file STEPWELL_OUTPUT: %w", err)
	}
	content, err := io.ReadAll(io.LimitReader(f, maxOutputFile+1))
	if err != nil {
		return nil, fmt.Errorf("the file STEPWELL_OUTPUT: %w", err)
	}
	if len(content) > maxOutputFile {
		return nil, &stepwell.Error{Code: stepwell.CodeLimit,
			Message: fmt.Sprintf("the file STEPWELL_OUTPUT has %d bytes, more than %d", max(info.Size(), maxOutputFile+1), maxOutputFile),
			Hint:    "write large results to a file of their own and its path as an output"}
	}
	return content, nil
}

func notPlain() error {
	return &stepwell.Error{Code: stepwell.CodeInvalid, Message: "STEPWELL_OUTPUT is not a regular file of its own any more", Hint: "write to the file, do not replace it by a link"}
}

// parseOutputs reads one JSON object, whose values are kept as written, or lines key=value, whose
// values are strings. Empty lines are skipped, and so is the CR of a line that ends in CR LF.
func parseOutputs(content []byte) (map[string]json.RawMessage, error) {
	if !utf8.Valid(content) {
		return nil, fmt.Errorf("is not UTF-8 text")
	}
	outputs := map[string]json.RawMessage{}
	if bytes.HasPrefix(bytes.TrimSpace(content), []byte("{")) {
		if err := json.Unmarshal(content, &outputs); err != nil {
			return nil, jsonError(content, err)
		}
		return outputs, nil
	}
	number := 0
	for line := range bytes.Lines(content) {
		number++
		line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		key, value, found := bytes.Cut(line, []byte("="))
		if !found || !outputKey.Match(key) {
			return nil, fmt.Errorf("line %d: %q does not begin with key=", number, stepwell.Clip(line, 60))
		}
		raw, err := json.Marshal(string(value))
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		outputs[string(key)] = raw
	}
	return outputs, nil
}

// jsonError gives a syntax error its line.
func jsonError(content []byte, err error) error {
	if e, ok := errors.AsType[*json.SyntaxError](err); ok {
		at := min(max(int(e.Offset), 0), len(content))
		return fmt.Errorf("line %d: %w", 1+bytes.Count(content[:at], []byte("\n")), err)
	}
	return err
}
