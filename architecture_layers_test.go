package stepwell_test

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// layer is one line of the layers block.
type layer struct {
	folder  string
	pure    bool
	imports []string // folders of this module; for a pure package also other modules
	place   string   // ARCHITECTURE.md:line
}

// permits finds the word of the line that allows an import: a package of this module by itself,
// one of another module also by the path above it.
func (l layer) permits(name string, inside bool) (permission string, ok bool) {
	for _, permission := range l.imports {
		if name == permission || inside && permission == path.Dir(name)+"/*" || !inside && strings.HasPrefix(name, permission+"/") {
			return permission, true
		}
	}
	return "", false
}

// layerOf is the line of a package: its own, or that of all packages below the same folder that have none.
func layerOf(layers map[string]layer, folder string) (layer, bool) {
	if l, ok := layers[folder]; ok {
		return l, true
	}
	l, ok := layers[path.Dir(folder)+"/*"]
	return l, ok
}

// parseLayers reads the one fenced layers block of the document:
//
//	[pure] package: import import …   # comment
//
// A package folder/* is each below the folder that has no line of its own, and folder/* among the imports is any of
// those below it; they may import what is listed and need not.
//
// Lines stand in the order of the data flow, so a line names only packages above it. That also
// makes a cycle impossible to write down.
func (t *tree) parseLayers(doc string) map[string]layer {
	layers := map[string]layer{}
	blocks, inside := 0, false
	number := 0
	for line := range strings.Lines(doc) {
		number++
		line = strings.TrimSpace(line)
		switch place := fmt.Sprintf("ARCHITECTURE.md:%d", number); {
		case !inside && line == "```layers":
			blocks++
			inside = true
		case inside && line == "```":
			inside = false
		case inside:
			t.parseLayer(layers, line, place)
		}
	}
	if blocks != 1 || inside {
		t.report("ARCHITECTURE.md", "has %d layers blocks (closed: %t), want one, closed", blocks, !inside)
	}
	return layers
}

func (t *tree) parseLayer(layers map[string]layer, line, place string) {
	line, _, _ = strings.Cut(line, "#")
	if strings.TrimSpace(line) == "" {
		return
	}
	head, imports, ok := strings.Cut(line, ":")
	words := strings.Fields(head)
	l := layer{imports: strings.Fields(imports), place: place}
	if len(words) == 2 && words[0] == "pure" {
		l.pure, words = true, words[1:]
	}
	if !ok || len(words) != 1 {
		t.report(place, "%q is not of the form \"[pure] package: import …\"", strings.TrimSpace(line))
		return
	}
	l.folder = words[0]
	if _, twice := layers[l.folder]; twice {
		t.report(place, "package %s is listed twice", l.folder)
		return
	}
	for i, name := range l.imports {
		t.checkPermission(layers, l, name)
		if slices.Contains(l.imports[:i], name) {
			t.report(place, "%s is named twice", name)
		}
	}
	layers[l.folder] = l
}

// checkPermission holds one import of a line against the lines above it.
func (t *tree) checkPermission(above map[string]layer, l layer, name string) {
	if !standard(name) && name != "." {
		if !l.pure {
			t.report(l.place, "%s: only pure packages list what they take from other modules", name)
		}
		return
	}
	switch dep, ok := above[name]; {
	case !ok:
		t.report(l.place, "%s may not import %s, which is not on a line above", l.folder, name)
	case l.pure && !dep.pure:
		t.report(l.place, "%s is pure and may not import %s, which is not", l.folder, name)
	}
}
