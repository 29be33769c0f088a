package helm

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
)

const maxValues = 4 << 20 // bytes of a file of values

// splitPath splits the path of a value: names with dots between them, a dot in a name is \.
func splitPath(path string) ([]string, error) {
	var names []string
	name := strings.Builder{}
	for at := 0; at < len(path); at++ {
		switch c := path[at]; {
		case c == '\\' && at+1 < len(path):
			at++
			name.WriteByte(path[at])
		case c == '.':
			names = append(names, name.String())
			name.Reset()
		default:
			name.WriteByte(c)
		}
	}
	names = append(names, name.String())
	if slices.Contains(names, "") {
		return nil, action.Invalid("names with dots between them: auth.password", "set_secrets: %q is not the path of a value", stepwell.Clip(path, 80))
	}
	return names, nil
}

// mergeSecrets puts secret values over the others, and gives all of them as JSON.
func mergeSecrets(values, secrets map[string]any) ([]byte, error) {
	raw, err := json.Marshal(values)
	if err != nil {
		return nil, action.Invalid("", "values: %v", err)
	}
	merged := map[string]any{}
	if err := json.Unmarshal(raw, &merged); err != nil || merged == nil { // a copy: parameters are not ours to change
		merged = map[string]any{}
	}
	for _, path := range slices.Sorted(maps.Keys(secrets)) {
		names, err := splitPath(path)
		if err != nil {
			return nil, err
		}
		in := merged
		for n, name := range names[:len(names)-1] {
			next, ok := in[name].(map[string]any)
			if !ok {
				if in[name] != nil {
					return nil, action.Invalid("", "set_secrets: %s: %s is not an object", path, strings.Join(names[:n+1], "."))
				}
				next = map[string]any{}
				in[name] = next
			}
			in = next
		}
		in[names[len(names)-1]] = secrets[path]
	}
	return json.Marshal(merged)
}

// copyValues copies the files of values to where nobody changes them, and gives their hashes.
func (i *installation) copyValues() (files, sums []string, err error) {
	for n, name := range i.p.Files {
		root, rel, err := i.openBelow("values_files", name)
		if err != nil {
			return nil, nil, err
		}
		text, err := readBelow(root, rel, maxValues)
		root.Close()
		if err != nil {
			return nil, nil, fileError("values_files", name, err)
		}
		file := filepath.Join(i.private, fmt.Sprintf("values-%d.yaml", n))
		if err := os.WriteFile(file, text, 0o600); err != nil {
			return nil, nil, &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "a copy of values", Err: err}
		}
		sum := sha256.Sum256(text)
		files, sums = append(files, file), append(sums, hex.EncodeToString(sum[:]))
	}
	return files, sums, nil
}
