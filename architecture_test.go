package stepwell_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestArchitecture holds the code against the layers block of ARCHITECTURE.md. It reads files and
// builds nothing, so it also sees code behind build tags of other systems.
func TestArchitecture(t *testing.T) {
	for _, finding := range checkArchitecture(os.DirFS(".")) {
		t.Error(finding)
	}
}

const (
	codeLines = 600 // cap of a hand-written file
	testLines = 800 // cap of a hand-written test file; its tables are long and flat
)

// drawers are names that do not describe their content, alone or, for some, at the end of another name
// ("stringutil").
var (
	drawers        = []string{"base", "common", "core", "lib", "misc", "model", "models", "shared", "tools", "type", "types"}
	drawerSuffixes = []string{"helper", "helpers", "manager", "managers", "util", "utils"}
)

// goFile is one parsed file.
type goFile struct {
	name  string // path from the module's root
	test  bool
	lines int
	ast   *ast.File
}

// tree is the content of the module's folders.
type tree struct {
	module   string
	packages map[string][]*goFile // by folder, "." for the root
	fset     *token.FileSet
	findings []string
}

func (t *tree) report(place, format string, args ...any) {
	t.findings = append(t.findings, place+": "+fmt.Sprintf(format, args...))
}

// at is a position as file:line.
func (t *tree) at(n ast.Node) string {
	p := t.fset.Position(n.Pos())
	return fmt.Sprintf("%s:%d", p.Filename, p.Line)
}

// checkArchitecture reports everything in the module at fsys that ARCHITECTURE.md forbids, one
// line each, sorted.
func checkArchitecture(fsys fs.FS) []string {
	t := readTree(fsys)
	doc, err := fs.ReadFile(fsys, "ARCHITECTURE.md")
	if err != nil {
		t.report("ARCHITECTURE.md", "%v", err)
	}
	layers := t.parseLayers(string(doc))
	t.checkFolders(layers)
	for folder, files := range t.packages {
		t.checkPackage(folder, files)
		for _, f := range files {
			t.checkTestSupport(folder, f)
			t.checkSize(f)
		}
		if l, ok := layerOf(layers, folder); ok {
			t.checkImports(l, files)
			if l.pure {
				t.checkPure(files)
			}
		}
	}
	slices.Sort(t.findings)
	return t.findings
}

// readTree parses every Go file of the module. Folders that the go command passes over (hidden,
// underscore, testdata, node_modules, nested modules) are passed over too.
func readTree(fsys fs.FS) *tree {
	t := &tree{packages: map[string][]*goFile{}, fset: token.NewFileSet()}
	mod, err := fs.ReadFile(fsys, "go.mod")
	if err != nil {
		t.report("go.mod", "%v", err)
	}
	for line := range strings.Lines(string(mod)) {
		if name, ok := strings.CutPrefix(line, "module "); ok {
			t.module = strings.TrimSpace(name)
		}
	}
	err = fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && passedOver(fsys, name):
			return fs.SkipDir
		case !d.IsDir() && path.Ext(name) == ".go":
			return t.readFile(fsys, name)
		}
		return nil
	})
	if err != nil {
		t.report("reading the module", "%v", err)
	}
	return t
}

func passedOver(fsys fs.FS, folder string) bool {
	base := path.Base(folder)
	if base[0] == '.' || base[0] == '_' || base == "testdata" || base == "vendor" || base == "node_modules" {
		return true
	}
	_, err := fs.Stat(fsys, path.Join(folder, "go.mod"))
	return err == nil
}

func (t *tree) readFile(fsys fs.FS, name string) error {
	src, err := fs.ReadFile(fsys, name)
	if err != nil {
		return err
	}
	f := &goFile{name: name, test: strings.HasSuffix(name, "_test.go"), lines: strings.Count(string(src), "\n")}
	f.ast, err = parser.ParseFile(t.fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.report(name, "does not parse: %v", err)
		return nil
	}
	t.packages[path.Dir(name)] = append(t.packages[path.Dir(name)], f)
	return nil
}

// checkFolders compares the list of packages: each must stand on both sides.
func (t *tree) checkFolders(layers map[string]layer) {
	for folder := range t.packages {
		if _, ok := layerOf(layers, folder); !ok {
			t.report(folder, "holds Go files but has no line in the layers block of ARCHITECTURE.md")
		}
	}
	for folder, l := range layers {
		if len(t.packages[folder]) == 0 && path.Base(folder) != "*" {
			t.report(l.place, "package %s is listed but its folder holds no Go files", folder)
		}
	}
}

// checkPackage holds one package to a name that says something and to a package comment.
func (t *tree) checkPackage(folder string, files []*goFile) {
	command, documented, names := false, false, strings.Split(folder, "/")
	hasCode := slices.ContainsFunc(files, func(f *goFile) bool { return !f.test })
	for _, f := range files {
		names = append(names, strings.TrimSuffix(f.ast.Name.Name, "_test"))
		command = command || f.ast.Name.Name == "main"
		if f.test && hasCode { // godoc shows no comment of a test file
			continue
		}
		text := f.ast.Doc.Text()
		if command {
			documented = documented || text != ""
		} else {
			documented = documented || strings.HasPrefix(text, "Package "+f.ast.Name.Name+" ")
		}
	}
	if !documented {
		t.report(folder, `has no package comment ("Package %s …")`, files[0].ast.Name.Name)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if drawer(name) {
			t.report(folder, "the name %q is a drawer; name the thing that the package is about", name)
		}
	}
}

func drawer(name string) bool {
	return slices.Contains(drawers, name) ||
		slices.ContainsFunc(drawerSuffixes, func(suffix string) bool { return strings.HasSuffix(name, suffix) })
}

// checkTestSupport lets only tests, and other test support, import a package that ends in "test".
func (t *tree) checkTestSupport(folder string, f *goFile) {
	if f.test || testSupport(folder) {
		return
	}
	for _, imp := range f.ast.Imports {
		if name, ok := t.inModule(importPath(imp)); ok && testSupport(name) {
			t.report(t.at(imp), "imports %s, which is for tests alone", name)
		}
	}
}

func testSupport(folder string) bool { return strings.HasSuffix(path.Base(folder), "test") }

func (t *tree) checkSize(f *goFile) {
	limit := codeLines
	if f.test {
		limit = testLines
	}
	if f.lines > limit && !ast.IsGenerated(f.ast) {
		t.report(f.name, "has %d lines, more than %d: split it", f.lines, limit)
	}
}

// checkImports holds the imports of a package's code, not of its tests, to its line in the block:
// every import is allowed, and every allowed import is made.
func (t *tree) checkImports(l layer, files []*goFile) {
	used := map[string]bool{}
	for _, f := range files {
		if f.test {
			continue
		}
		for _, imp := range f.ast.Imports {
			name, inside := t.inModule(importPath(imp))
			if !inside && (!l.pure || standard(name)) {
				continue // checkPure checks a pure package's imports of the standard library
			}
			permission, ok := l.permits(name, inside)
			used[permission] = ok
			if !ok {
				t.report(t.at(imp), "%s may not import %s (%s)", l.folder, name, l.place)
			}
		}
	}
	for _, name := range l.imports {
		if !used[name] && path.Base(name) != "*" && path.Base(l.folder) != "*" {
			t.report(l.place, "%s does not import %s; strike it from the line", l.folder, name)
		}
	}
}

// inModule turns an import path of this module into its folder.
func (t *tree) inModule(importPath string) (folder string, ok bool) {
	if importPath == t.module {
		return ".", true
	}
	if rest, ok := strings.CutPrefix(importPath, t.module+"/"); ok {
		return rest, true
	}
	return importPath, false
}

// standard reports whether a package is of the standard library: no dot in the first element.
func standard(importPath string) bool {
	first, _, _ := strings.Cut(importPath, "/")
	return !strings.Contains(first, ".")
}

func importPath(imp *ast.ImportSpec) string {
	name, err := strconv.Unquote(imp.Path.Value)
	if err != nil {
		return imp.Path.Value // the parser let it pass, so show it as it stands
	}
	return name
}
