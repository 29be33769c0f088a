package lsp

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/spec"
)

// renamer changes a name in another file than that which declares it.
type renamer struct {
	t     *text
	n     *name
	to    string
	word  *regexp.Regexp // the name within a key such as each[0]/build
	read  *regexp.Regexp // in a template
	edits []textEdit
	err   error
}

// renameTests adds the changes of the files of tests beside a document, and for a parameter of the pipelines beside it that give it.
func (s *server) renameTests(d *document, n *name, to string, out *workspaceEdit) error {
	root := "steps"
	if n.param {
		root = "(?:params|credentials)"
	}
	id := regexp.QuoteMeta(n.id)
	base := strings.TrimSuffix(d.file, filepath.Ext(d.file))
	for _, suffix := range testSuffixes {
		err := s.renameIn(base+suffix, n, to, root, id, out, (*renamer).test)
		if err != nil {
			return err
		}
	}
	if !n.param {
		return nil
	}
	entries, err := os.ReadDir(filepath.Dir(d.file))
	if err != nil {
		return nil // an unsaved document has nothing beside it
	}
	for _, e := range entries[:min(len(entries), maxFiles)] {
		file := filepath.Join(filepath.Dir(d.file), e.Name())
		if e.IsDir() || file == d.file || endsIn(file, testSuffixes) || !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(file)) {
			continue
		}
		calls := []string{filepath.Base(d.file), filepath.Base(base)}
		err := s.renameIn(file, n, to, root, id, out, func(r *renamer, root *spec.Node) { r.callers(root, calls) })
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *server) renameIn(file string, n *name, to, root, id string, out *workspaceEdit, visit func(r *renamer, root *spec.Node)) error {
	src, err := s.read(file)
	if errors.Is(err, fs.ErrNotExist) || stepwell.CodeOf(err) == stepwell.CodeNotFound {
		return nil
	}
	if err != nil {
		return refuse("%v", err)
	}
	node, _ := definition.Nodes(file, src)
	if node == nil {
		if strings.Contains(string(src), n.id) {
			return refuse("%s may name %q, and cannot be read", filepath.Base(file), n.id)
		}
		return nil
	}
	const boundary = `[^A-Za-z0-9_.-]`
	r := &renamer{t: newText(string(src)), n: n, to: to, word: regexp.MustCompile(`(?:^|` + boundary + `)(` + id + `)(?:$|` + boundary + `)`),
		read: regexp.MustCompile(`\b` + root + `(?:\.|\[\s*\\?["'])(` + id + `)(?:$|[^A-Za-z0-9_-])`)}
	visit(r, node)
	if r.err != nil {
		return refuse("%s: %v", filepath.Base(file), r.err)
	}
	if len(r.edits) > 0 {
		out.Changes[s.uriOf(file)] = r.edits
	}
	return nil
}

// replace changes what a pattern finds in a text of the document, which must stand there as it is.
func (r *renamer) replace(pattern *regexp.Regexp, text string, pos spec.Pos, loose bool) {
	found := pattern.FindAllStringSubmatchIndex(text, -1)
	if len(found) == 0 || r.err != nil {
		return
	}
	from := r.t.at(pos)
	if from < len(r.t.src) && (r.t.src[from] == '"' || r.t.src[from] == '\'') && !strings.HasPrefix(text, r.t.src[from:from+1]) {
		from++ // the quote of a key
	}
	if loose || !strings.HasPrefix(r.t.src[from:], text) {
		r.err = refuse("line %d names %q in a text of several lines, or one that is folded or escaped: change it by hand first", pos.Line, r.n.id)
		return
	}
	for _, m := range found {
		r.edits = append(r.edits, textEdit{r.t.span(from+m[2], from+m[3]), r.to})
	}
}

// named changes the keys of a mapping, the texts of a list, or a text.
func (r *renamer) named(n *spec.Node) {
	if n == nil {
		return
	}
	for _, e := range n.Entries {
		r.replace(r.word, e.Key, e.Pos, false)
	}
	for _, item := range n.Items {
		r.named(item)
	}
	if n.Kind == spec.ScalarNode {
		r.replace(r.word, n.Text, n.Pos, n.Loose)
	}
}

// templates changes what texts anywhere read.
func (r *renamer) templates(n *spec.Node) {
	if n == nil {
		return
	}
	if n.Kind == spec.ScalarNode {
		r.replace(r.read, n.Text, n.Pos, n.Loose)
	}
	for _, item := range n.Items {
		r.templates(item)
	}
	for _, e := range n.Entries {
		r.templates(e.Value)
	}
}

// test changes a file of tests.
func (r *renamer) test(root *spec.Node) {
	r.templates(root)
	all := []*spec.Node{root}
	if tests := root.Lookup("tests"); tests != nil {
		all = append(all, tests.Items...)
	}
	for _, n := range all {
		if r.n.param {
			r.named(mapping(n.Lookup("params")))
			continue
		}
		for _, key := range []string{"mock", "real", "items"} {
			r.named(n.Lookup(key))
		}
		if when := n.Lookup("when"); when != nil {
			for _, item := range when.Items {
				r.named(item.Lookup("step"))
				r.named(item.Lookup("restart"))
			}
		}
		expect := n.Lookup("expect")
		for _, key := range []string{"steps", "calls", "items", "failures", "logs"} {
			r.named(mapping(expect.Lookup(key)))
		}
		r.named(expect.Lookup("order"))
		if steps := expect.Lookup("steps"); steps != nil {
			for _, e := range steps.Entries {
				r.named(e.Value.Lookup("after"))
			}
		}
	}
}

// mapping is a node if it is one: elsewhere a template may stand for it.
func mapping(n *spec.Node) *spec.Node {
	if n == nil || n.Kind != spec.MapNode {
		return nil
	}
	return n
}

// callers changes the params of steps that run the pipeline.
func (r *renamer) callers(n *spec.Node, names []string) {
	if called := n.Lookup("pipeline"); called != nil && called.Kind == spec.ScalarNode && slices.Contains(names, called.Text) {
		r.named(mapping(n.Lookup("params")))
	}
	for _, item := range n.Items {
		r.callers(item, names)
	}
	for _, e := range n.Entries {
		r.callers(e.Value, names)
	}
}
