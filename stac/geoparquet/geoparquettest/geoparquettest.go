// Package geoparquettest asks DuckDB, an independent reader, what is in a Parquet file. For tests only.
//
// The program that it asks is the module in the folder duckdb beside it. It is built once, into the user's cache,
// which takes a C compiler and, the first time, the module proxy.
package geoparquettest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// Query runs a statement in a database of its own and returns the rows by column name. Numbers are float64. An
// error of the statement fails the test. Without a C compiler the test is skipped, unless CI is "true".
func Query(t testing.TB, sql string) []map[string]any {
	t.Helper()
	cmd := exec.Command(program(t))
	cmd.Stdin = strings.NewReader(strings.Join(strings.Fields(sql), " ") + "\n")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("duckdb: %v", err)
	}
	var rows []map[string]any
	if err := json.Unmarshal(out, &rows); err != nil {
		t.Fatalf("%s\n%s", sql, out)
	}
	return rows
}

// program is the path of the program, built when it is missing.
func program(t testing.TB) string {
	t.Helper()
	_, here, _, _ := runtime.Caller(0)
	source := filepath.Join(filepath.Dir(here), "duckdb")
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(cache, "stepwell-test-tools", "duckdb-"+hashOf(t, source))
	if _, err := os.Stat(path); err == nil {
		return path
	}
	if missing := compilerMissing(); missing != "" {
		if os.Getenv("CI") == "true" {
			t.Fatal(missing)
		}
		t.Skip("not read back with DuckDB: " + missing)
	}
	build(t, source, path)
	return path
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

func build(t testing.TB, source, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	temp, err := os.MkdirTemp(filepath.Dir(path), "build")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(temp)
	built := filepath.Join(temp, "duckdb")
	cmd := exec.Command("go", "build", "-o", built, ".")
	cmd.Dir = source
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1", "GOWORK=off", "GOFLAGS=-mod=readonly")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v\n%s", source, err, out)
	}
	if err := os.Rename(built, path); err != nil {
		t.Fatal(err)
	}
}

// hashOf names what the program is made of.
func hashOf(t testing.TB, source string) string {
	t.Helper()
	var all bytes.Buffer
	all.WriteString(runtime.Version())
	for _, name := range []string{"main.go", "go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(source, name))
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	sum := sha256.Sum256(all.Bytes())
	return hex.EncodeToString(sum[:8])
}
