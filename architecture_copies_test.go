package stepwell_test

import (
	"go/ast"
	"go/token"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
)

// copied is how many fields of the same name one literal may take from one value: from there on the two structs are one noun
// that is described twice.
const copied = 6

// stillCopied are the places that copy more, by package, and how many there are: a list that only gets shorter.
var stillCopied = map[string]int{
	"store": 1,
}

// TestNoStructIsCopiedFieldByField holds every literal X{A: y.A, B: y.B, …} of the product against the bound. A field that is
// converted on the way counts for nothing: then the two say different things.
func TestNoStructIsCopiedFieldByField(t *testing.T) {
	tree := readTree(os.DirFS("."))
	found := map[string][]string{}
	for folder, files := range tree.packages {
		for _, f := range files {
			if f.test || strings.HasSuffix(folder, "test") || strings.HasPrefix(folder, "examples") || strings.HasPrefix(folder, "test/") {
				continue
			}
			ast.Inspect(f.ast, func(n ast.Node) bool {
				if literal, ok := n.(*ast.CompositeLit); ok && copies(literal) >= copied {
					found[path.Clean(folder)] = append(found[path.Clean(folder)], tree.at(literal))
				}
				return true
			})
		}
	}
	for _, folder := range slices.Sorted(maps.Keys(found)) {
		if most := stillCopied[folder]; len(found[folder]) > most {
			t.Errorf("%s copies structs field by field at %s; %d places may (embed the struct, or make it one)", folder, strings.Join(found[folder], ", "), most)
		}
	}
	for folder, most := range stillCopied {
		if len(found[folder]) < most {
			t.Errorf("%s copies %d structs field by field, not %d: shorten stillCopied", folder, len(found[folder]), most)
		}
	}
}

// copies is how many fields of a literal have the name of the field that they are taken from, of the value that most are
// taken from.
func copies(literal *ast.CompositeLit) int {
	from := map[string]int{}
	for _, e := range literal.Elts {
		pair, ok := e.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		name, ok := pair.Key.(*ast.Ident)
		field, is := pair.Value.(*ast.SelectorExpr)
		if !ok || !is || field.Sel.Name != name.Name {
			continue
		}
		if of := written(field.X); of != "" {
			from[of]++
		}
	}
	most := 0
	for _, n := range from {
		most = max(most, n)
	}
	return most
}

// written is an expression of names and fields as text, "" for any other.
func written(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		if of := written(e.X); of != "" {
			return of + "." + e.Sel.Name
		}
	case *ast.ParenExpr:
		return written(e.X)
	case *ast.StarExpr:
		return written(e.X)
	case *ast.IndexExpr:
		return written(e.X)
	}
	return ""
}

func TestCopiesAreSeen(t *testing.T) {
	literal := func(pairs string) *ast.CompositeLit {
		t.Helper()
		lit := &ast.CompositeLit{}
		for name := range strings.FieldsSeq(pairs) {
			lit.Elts = append(lit.Elts, &ast.KeyValueExpr{Key: ast.NewIdent(name), Colon: token.NoPos, Value: &ast.SelectorExpr{X: ast.NewIdent("y"), Sel: ast.NewIdent(name)}})
		}
		return lit
	}
	if n := copies(literal("A B C D E F")); n != 6 {
		t.Errorf("six copies are %d", n)
	}
	if n := copies(literal("A B C")); n != 3 {
		t.Errorf("three copies are %d", n)
	}
}
