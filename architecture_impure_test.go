package stepwell_test

import "testing"

// TestArchitectureImpureImports has every package that pure code may not import, and some of those
// below them.
func TestArchitectureImpureImports(t *testing.T) {
	for _, name := range []string{"C", "context", "crypto/rand", "database/sql", "database/sql/driver", "expvar", "flag",
		"hash/maphash", "io/fs", "io/ioutil", "log", "log/slog", "math/rand", "math/rand/v2", "net", "net/http", "os",
		"os/exec", "os/signal", "path/filepath", "plugin", "runtime", "runtime/debug", "sync", "sync/atomic", "syscall",
		"testing", "testing/fstest", "unsafe"} {
		impure(t, `import "`+name+`"`, "", "engine/e2.go:3: import of "+name+" in a pure package")
	}
	impure(t, `import clock "os"`, "", "engine/e2.go:3: import of os in a pure package")
	impure(t, `import . "time"`, "var x = Now()", `engine/e2.go:3: import of time as "." in a pure package`)
	impure(t, `import _ "image/png"`, "", `engine/e2.go:3: import of image/png as "_" in a pure package`)
	for _, name := range []string{"bytes", "encoding/json", "io", "iter", "math", "net/netip", "net/url", "path", "regexp", "strings"} {
		impure(t, `import "`+name+`"`, "")
	}
}

func TestArchitectureImpureNames(t *testing.T) {
	for _, name := range []string{"After", "AfterFunc", "Local", "NewTicker", "NewTimer", "Now", "Since", "Sleep", "Tick", "Until"} {
		impure(t, `import "time"`, "var x = time."+name+"(y)", "engine/e2.go:5: time."+name+" in a pure package")
	}
	for _, name := range []string{"Print", "Printf", "Println", "Scan", "Scanf", "Scanln"} {
		impure(t, `import "fmt"`, "func f() { fmt."+name+"(y) }", "engine/e2.go:5: fmt."+name+" in a pure package")
	}
	impure(t, `import "time"`, "var clock = time.Now", "engine/e2.go:5: time.Now in a pure package") // mentioned, not called
	impure(t, `import t "time"`, "var x = t.Now()", "engine/e2.go:5: time.Now in a pure package")    // renamed
	impure(t, `import "time"`, "var x, y = time.Unix(1, 0), time.Time.After")
	impure(t, `import "fmt"`, `var x = fmt.Sprint("x")`)
	impure(t, "", "var x = y.Now()") // of a value, where the time comes from the caller
}

func TestArchitectureImpureSyntax(t *testing.T) {
	for body, what := range map[string]string{
		"func f() { go f() }":     "go statement",
		"func f() { select {} }":  "select",
		"var c <-chan int":        "channel",
		"func f() { g() <- 1 }":   "channel send",
		"func f() { <-g() }":      "channel receive",
		"func f() { print(1) }":   "print",
		"func f() { println(1) }": "println",
	} {
		impure(t, "", body, "engine/e2.go:5: "+what+" in a pure package")
	}
	impure(t, "", "var a, b, c = -1, !true, &d")
}

// impure adds a file to the pure package of the sound module and compares the findings.
func impure(t *testing.T, imports, body string, want ...string) {
	t.Helper()
	files := soundModule()
	files["engine/e2.go"] = "package engine\n\n" + imports + "\n\n" + body + "\n"
	wantFindings(t, files, want...)
	if len(want) == 0 {
		return
	}
	// the same is welcome in the package's tests and in a package that is not pure
	files["engine/e2_test.go"] = files["engine/e2.go"]
	files["engine/e2.go"] = "package engine\n"
	files["store/s2.go"] = "package store\n\n" + imports + "\n\n" + body + "\n"
	wantFindings(t, files)
}
