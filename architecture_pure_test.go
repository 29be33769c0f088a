package stepwell_test

import (
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strings"
)

// impurePackages are those of the standard library, each with everything below it, that reach
// outside of the arguments of a call: I/O, clocks, chance, other goroutines, the machine.
var impurePackages = []string{"C", "context", "crypto/rand", "database", "expvar", "flag",
	"hash/maphash", "io/fs", "io/ioutil", "log", "math/rand", "net", "os", "path/filepath", "plugin",
	"runtime", "sync", "syscall", "testing", "unsafe"}

// harmless are packages below an impure one that only parse and format.
var harmless = []string{"net/netip", "net/url"}

// impureNames are the impure part of packages that are otherwise welcome.
var impureNames = map[string][]string{
	"time": {"After", "AfterFunc", "Local", "NewTicker", "NewTimer", "Now", "Since", "Sleep", "Tick", "Until"},
	"fmt":  {"Print", "Printf", "Println", "Scan", "Scanf", "Scanln"},
}

// checkPure refuses any dependency of a package's result on more than its input. Tests of a pure package are free.
func (t *tree) checkPure(files []*goFile) {
	for _, f := range files {
		if f.test {
			continue
		}
		watched := t.checkPureImports(f) // local name → import path
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if what := impureNode(n, watched); what != "" {
				t.report(t.at(n), "%s in a pure package", what)
			}
			return true
		})
	}
}

// checkPureImports refuses impure imports and returns the local names of the packages that are
// allowed in part.
func (t *tree) checkPureImports(f *goFile) map[string]string {
	watched := map[string]string{}
	for _, imp := range f.ast.Imports {
		name := importPath(imp)
		local := path.Base(name)
		if imp.Name != nil {
			local = imp.Name.Name
		}
		if impurePackage(name) {
			t.report(t.at(imp), "import of %s in a pure package", name)
		}
		if local == "." || local == "_" && name != "embed" { // names without a package, or its side effects
			t.report(t.at(imp), "import of %s as %q in a pure package", name, local)
		}
		if impureNames[name] != nil {
			watched[local] = name
		}
	}
	return watched
}

func impurePackage(name string) bool {
	if slices.Contains(harmless, name) {
		return false
	}
	return slices.ContainsFunc(impurePackages, func(impure string) bool {
		return name == impure || strings.HasPrefix(name, impure+"/")
	})
}

// impureNode names the impure part of a node of the syntax tree, if any. A mention is enough: `clock := time.Now` is
// the clock as well.
func impureNode(n ast.Node, watched map[string]string) string {
	switch n := n.(type) {
	case *ast.GoStmt:
		return "go statement"
	case *ast.SelectStmt:
		return "select"
	case *ast.ChanType:
		return "channel"
	case *ast.SendStmt:
		return "channel send"
	case *ast.UnaryExpr:
		if n.Op == token.ARROW {
			return "channel receive"
		}
	case *ast.SelectorExpr:
		if x, ok := n.X.(*ast.Ident); ok {
			if name := watched[x.Name]; slices.Contains(impureNames[name], n.Sel.Name) {
				return name + "." + n.Sel.Name
			}
		}
	case *ast.CallExpr:
		if fun, ok := n.Fun.(*ast.Ident); ok && (fun.Name == "print" || fun.Name == "println") {
			return fun.Name
		}
	}
	return ""
}
