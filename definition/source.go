package definition

import (
	"bytes"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v4"
)

// MaxText is how many bytes of text a definition keeps at most.
const MaxText = 4 << 20

// Keep makes src the Text of the definition. A longer one than MaxText is not kept.
func (d *Definition) Keep(src []byte) {
	if d.Text = ""; len(src) <= MaxText {
		d.Text = string(src)
	}
}

// Untold is a snapshot (Encode) without the Text in it, and that text, "" for none.
func Untold(snapshot []byte) (rest []byte, text string, err error) {
	if !bytes.Contains(snapshot, []byte(`"text":`)) {
		return snapshot, "", nil
	}
	d, err := Decode(snapshot)
	if err != nil || d.Text == "" {
		return snapshot, "", err
	}
	text, d.Text = d.Text, ""
	rest, err = Encode(d)
	return rest, text, err
}

// YAML writes a snapshot (Encode) as YAML, its keys in the order that they have there. They are those of the snapshot, not all of
// them ones of a document.
func YAML(snapshot []byte) (string, error) {
	var n yaml.Node
	if err := yaml.Unmarshal(snapshot, &n); err != nil { // JSON is YAML
		return "", fmt.Errorf("the snapshot: %w", err)
	}
	block(&n)
	var b strings.Builder
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(&n); err != nil {
		return "", fmt.Errorf("the snapshot: %w", err)
	}
	return b.String(), e.Close()
}

// block gives a node the style that people write: one line a key, quotes where they are needed.
func block(n *yaml.Node) {
	switch n.Style = 0; {
	case n.Kind == yaml.ScalarNode && n.Tag == "!!str" && strings.Contains(n.Value, "\n"):
		n.Style = yaml.LiteralStyle
	case len(n.Content) == 0 && n.Kind != yaml.ScalarNode:
		n.Style = yaml.FlowStyle
	}
	for _, c := range n.Content {
		block(c)
	}
}

// Lines are the lines of a text, from 1, in which a step stands.
type Lines struct {
	Step     string // its key, of an iteration without the number: group.id, finally.id
	From, To int
}

// maxLines bounds the steps of StepLines.
const maxLines = 100_000

// StepLines finds the steps of a document, in its order, those of groups too. A text that cannot be read has none.
func StepLines(src []byte) []Lines {
	d, _ := Parse(src, ParseOptions{Sent: true, Lenient: true})
	if d == nil {
		return nil
	}
	if len(d.Matrix) > 0 && d.Pipelines[d.Matrix[0]] != nil { // all entries are the same text
		d = d.Pipelines[d.Matrix[0]]
	}
	f := &lineFinder{text: strings.Split(strings.TrimRight(string(src), "\r\n"), "\n")}
	f.list("", d.Steps, len(f.text))
	f.list("on_failure.", d.OnFailure, len(f.text))
	f.list("finally.", d.Finally, len(f.text))
	return f.out
}

type lineFinder struct {
	text []string
	out  []Lines
}

// list adds the steps of a list that ends at a line at the latest.
func (f *lineFinder) list(prefix string, steps []Step, last int) {
	for i := range steps {
		s := &steps[i]
		if s.Pos.Line < 1 || s.Pos.Line > len(f.text) || len(f.out) == maxLines {
			continue // of an alias, or of no place
		}
		end := last
		if i+1 < len(steps) && steps[i+1].Pos.Line >= s.Pos.Line {
			end = min(end, max(s.Pos.Line, steps[i+1].Pos.Line-1))
		}
		to := f.end(s.Pos, end)
		f.out = append(f.out, Lines{prefix + s.ID, s.Pos.Line, to})
		f.list(prefix+s.ID+".", s.Steps, to)
	}
}

// end is the last line of what begins at a place: the lines behind it that are indented as far, without blank ones and comments at
// their end.
func (f *lineFinder) end(from Pos, last int) int {
	to := from.Line
	for n := from.Line + 1; n <= last; n++ {
		line := f.text[n-1]
		inner := strings.TrimLeft(line, " \t")
		text := strings.TrimSpace(inner)
		if text == "" {
			continue
		}
		if len(line)-len(inner) < from.Column-1 {
			if strings.HasPrefix(text, "#") {
				continue
			}
			break
		}
		if !strings.HasPrefix(text, "#") {
			to = n
		}
	}
	return to
}
