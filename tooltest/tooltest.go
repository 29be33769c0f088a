// Package tooltest builds the programs that tests need from modules of their own, so that what they depend on is in no
// go.mod of a user. A program is built once, into the user's cache. For tests only.
package tooltest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// Tool is a program of a module in a folder of this repository.
type Tool struct {
	Dir string // from the repository's root, with slashes
	// Cgo says that it needs a C compiler. Defaults to false.
	Cgo bool
	// Long says that its build takes many minutes: a test builds it only if CI is "true" or STEPWELL_BUILD_TOOLS is 1.
	// Defaults to false.
	Long bool
	// Purpose is what is left out without it: "not read back with DuckDB".
	Purpose string
}

// The programs. TestTools builds all of them, which `./test` has done first: a cold build takes minutes, and the tests that
// ask for a program have a limit.
var (
	DuckDB = Tool{Dir: "stac/geoparquet/geoparquettest/duckdb", Cgo: true, Purpose: "not read back with DuckDB"}
	Daprd  = Tool{Dir: "action/service/daprtest/daprd", Purpose: "not tried with a real Dapr sidecar"}
	Kube   = Tool{Dir: "action/kube/kubetest/controlplane", Long: true, Purpose: "not tried with a real Kubernetes control plane"}
	Helm   = Tool{Dir: "action/helm/helmtest/helm", Long: true, Purpose: "not tried with the real helm"}
	Image  = Tool{Dir: "deploy/image", Purpose: "no container image is built"}
	Check  = Tool{Dir: "deploy/check", Purpose: "the compose file and the chart are not checked"}
)

// All are the programs, for those who build them beforehand.
var All = []Tool{DuckDB, Daprd, Kube, Helm, Image, Check}

// Path is the path of the program, built when it is missing: for the first time that takes the module proxy and, for
// large ones, minutes. When it cannot be built the test is skipped with one line; if CI is "true" it fails.
func Path(t testing.TB, tool Tool) string {
	t.Helper()
	source := filepath.Join(Root(t), filepath.FromSlash(tool.Dir))
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(cache, "stepwell-test-tools", filepath.Base(source)+"-"+hashOf(t, source))
	if _, err := os.Stat(path); err == nil {
		return path
	}
	why := ""
	switch {
	case tool.Long && os.Getenv("CI") != "true" && os.Getenv("STEPWELL_BUILD_TOOLS") != "1":
		why = tool.Dir + " is not built, which takes minutes (STEPWELL_BUILD_TOOLS=1 go test ./tooltest)"
	case tool.Cgo:
		why = compilerMissing()
	}
	if why == "" {
		why = build(t, source, path, tool.Cgo)
	}
	if why != "" {
		missing(t, tool.Purpose, why)
	}
	return path
}

// Root is the folder of this repository.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "ARCHITECTURE.md")); err == nil {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Fatal("no folder above the test has ARCHITECTURE.md")
		}
		dir = up
	}
}

func compilerMissing() string {
	out, err := exec.Command("go", "env", "CC").Output()
	if err != nil {
		return "go env CC: " + err.Error()
	}
	cc := strings.Fields(string(out))
	if len(cc) == 0 {
		return "go knows no C compiler"
	}
	if _, err := exec.LookPath(cc[0]); err != nil {
		return "there is no C compiler " + cc[0]
	}
	return ""
}

// build says what went wrong.
func build(t testing.TB, source, path string, cgo bool) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	temp, err := os.MkdirTemp(filepath.Dir(path), "build")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(temp)
	built := filepath.Join(temp, "program")
	cmd := exec.Command("go", "build", "-trimpath", "-o", built, ".")
	cmd.Dir = source
	enabled := "0"
	if cgo {
		enabled = "1"
	}
	cmd.Env = append(os.Environ(), "CGO_ENABLED="+enabled, "GOWORK=off", "GOFLAGS=-mod=readonly")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "building " + source + ": " + err.Error() + "\n" + string(out)
	}
	if err := os.Rename(built, path); err != nil {
		t.Fatal(err)
	}
	return ""
}

// hashOf names what the program is made of.
func hashOf(t testing.TB, source string) string {
	t.Helper()
	var all bytes.Buffer
	all.WriteString(runtime.Version())
	names, err := filepath.Glob(filepath.Join(source, "*.go"))
	if err != nil || len(names) == 0 {
		t.Fatal(source, "holds no program", err)
	}
	for _, name := range append(names, filepath.Join(source, "go.mod"), filepath.Join(source, "go.sum")) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	sum := sha256.Sum256(all.Bytes())
	return hex.EncodeToString(sum[:8])
}
