package media

import (
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
)

type copyParams struct {
	Source      string `json:"source" doc:"Directory that the files are in. Needed unless every file has a root."`
	Files       []any  `json:"files" doc:"What to copy: the files of media.scan, or paths relative to source. Absent: what media.scan finds in source."`
	Destination string `json:"destination" required:"true" doc:"Directory to copy into; made when missing, and outside of the source."`
	Verify      bool   `json:"verify" default:"true" doc:"Read each copy back and compare it with what was read from the source."`
	Template    string `json:"template" default:"{original}" doc:"Name of a copy inside the destination."`
	Dedupe      bool   `json:"dedupe" default:"true" doc:"Store the same content once."`
	OnError     string `json:"on_error" default:"continue" enum:"continue,fail" doc:"What happens to the step when a file cannot be copied."`
	Spawn       any    `json:"spawn" doc:"Step for each copied file: an object with action (´media.metadata´), name (´extract_metadata´), params and on_failure (´continue´ or ´fail´; ´continue´), or false for none."`

	given bool     // Files was there, perhaps empty
	rels  []string // Files, checked
	spawn *spawnParams
}

// spawnParams is the step to start for each copied file; nil for none.
type spawnParams struct {
	action, name, onFailure string
	params                  map[string]any
}

func bindCopy(call *action.Call) (copyParams, error) {
	p := copyParams{Verify: true, Dedupe: true}
	if err := call.Bind(&p); err != nil {
		return p, err
	}
	if p.Template == "" {
		p.Template = "{original}"
	}
	if err := checkTemplate(p.Template); err != nil {
		return p, action.Fail(err)
	}
	var err error
	if p.spawn, err = parseSpawn(p.Spawn); err != nil {
		return p, action.Fail(err)
	}
	if p.OnError != "" && p.OnError != "continue" && p.OnError != "fail" {
		return p, action.Fail(stepwell.Invalid("use continue or fail", "on_error is %q", p.OnError))
	}
	p.given = call.Params["files"] != nil
	for i, f := range p.Files {
		if err := p.addFile(i, f); err != nil {
			return p, action.Fail(err)
		}
	}
	if p.Source == "" && (!p.given || len(p.rels) > 0) {
		return p, action.Fail(stepwell.Invalid("name the directory to copy from, or pass the files of media.scan", "there is no source"))
	}
	return p, nil
}

// addFile takes a file of media.scan or a path. The files of one copy have one root.
func (p *copyParams) addFile(i int, f any) error {
	rel, ok := f.(string)
	if m, isMap := f.(map[string]any); isMap {
		rel, ok = m["path"].(string)
		if root, _ := m["root"].(string); root != "" && p.Source == "" {
			p.Source = root
		} else if root != "" && root != p.Source && len(p.rels) > 0 && p.Source == rootOf(p.Files[0]) {
			return stepwell.Invalid("copy from one directory per step, or set source", "files[%d] is in %s, others are in %s", i, root, p.Source)
		}
	}
	if !ok {
		return stepwell.Invalid(`write files: "{{ steps.scan.outputs.files }}" or a list of paths`, "files[%d] is neither a path nor a file of media.scan", i)
	}
	clean := path.Clean(rel)
	if strings.Contains("/"+rel+"/", "/../") || !fs.ValidPath(clean) || clean == "." || strings.ContainsRune(rel, 0) {
		return stepwell.Invalid("paths are relative to source and do not leave it", "files[%d]: %q is not a path below the source", i, rel)
	}
	p.rels = append(p.rels, clean)
	return nil
}

func rootOf(f any) string {
	m, _ := f.(map[string]any)
	root, _ := m["root"].(string)
	return root
}

func parseSpawn(v any) (*spawnParams, error) {
	s := &spawnParams{action: "media.metadata", name: "extract_metadata", onFailure: "continue"}
	switch v := v.(type) {
	case nil:
		return s, nil
	case bool:
		if !v {
			return nil, nil
		}
		return s, nil
	case map[string]any:
		for key, value := range v {
			word, isString := value.(string)
			switch {
			case key == "params" && value != nil:
				m, ok := value.(map[string]any)
				if !ok {
					return nil, stepwell.Invalid("write names and values", "spawn.params is not an object")
				}
				s.params = m
			case key == "action" && isString && word != "":
				s.action = word
			case key == "name" && isString && word != "" && !strings.Contains(word, ":"):
				s.name = word
			case key == "on_failure" && (word == "continue" || word == "fail"):
				s.onFailure = word
			default:
				return nil, stepwell.Invalid("spawn has action, name, params and on_failure", "spawn.%s: %v is not allowed", key, value)
			}
		}
		return s, nil
	}
	return nil, stepwell.Invalid("spawn has action, name, params and on_failure", "spawn is neither an object nor false")
}

// step is the step for one stored file. It depends on nothing but the file, so that every attempt
// spawns the same.
func (s *spawnParams) step(f Stored, destination string) action.NewStep {
	params := map[string]any{}
	maps.Copy(params, s.params)
	params["path"] = filepath.Join(destination, filepath.FromSlash(f.Path))
	return action.NewStep{Name: s.name, Key: f.Source, Action: s.action, Params: params, OnFailure: s.onFailure}
}
