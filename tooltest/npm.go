package tooltest

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Packages is a folder whose node_modules has npm packages, each "name@version". They are installed when they are missing, which
// takes npm and its registry. When that fails the test is skipped with one line; if CI is "true" it fails. Purpose is what is
// left out then: "not judged by ajv".
func Packages(t testing.TB, purpose string, packages ...string) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(strings.Join(packages, " ")))
	name, _, _ := strings.Cut(packages[0], "@")
	dir := filepath.Join(cache, "stepwell-test-tools", name+"-"+hex.EncodeToString(sum[:8]))
	if _, err := os.Stat(dir); err == nil {
		return dir
	}
	for _, program := range []string{"node", "npm"} {
		Program(t, purpose, program)
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	temp, err := os.MkdirTemp(filepath.Dir(dir), name+"-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(temp)
	cmd := exec.Command("npm", append([]string{"install", "--no-audit", "--no-fund", "--ignore-scripts", "--save-exact", "--prefix", temp}, packages...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		missing(t, purpose, "npm install: "+err.Error()+"\n"+string(out))
	}
	if err := os.Rename(temp, dir); err != nil {
		if _, there := os.Stat(dir); there != nil { // another test was faster
			t.Fatal(err)
		}
	}
	return dir
}

// TypeScript compiles a folder of this repository that has a tsconfig.json, and may import from clients/typescript, unless these
// files have been compiled before. It returns node, which runs what it finds in the folder out.
func TypeScript(t testing.TB, project string) (node, out string) {
	t.Helper()
	const purpose = "the TypeScript worker is not run"
	tools := Packages(t, purpose, "typescript@5.9.3")
	node = Program(t, purpose, "node")
	folder := filepath.Join(Root(t), filepath.FromSlash(project))
	out = filepath.Join(filepath.Dir(tools), "compiled-"+hashOfSources(t, folder, filepath.Join(Root(t), "clients", "typescript")))
	if _, err := os.Stat(out); err == nil {
		return node, out
	}
	temp, err := os.MkdirTemp(filepath.Dir(tools), "compiling-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(temp)
	if err := os.WriteFile(filepath.Join(temp, "package.json"), []byte(`{"type": "module"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	compile := exec.Command(node, filepath.Join(tools, "node_modules", "typescript", "bin", "tsc"), "--project", folder, "--outDir", temp)
	if text, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("tsc: %v\n%s", err, text)
	}
	if err := os.Rename(temp, out); err != nil {
		if _, there := os.Stat(out); there != nil { // another test was faster
			t.Fatal(err)
		}
	}
	return node, out
}

// hashOfSources names what folders hold for TypeScript.
func hashOfSources(t testing.TB, folders ...string) string {
	t.Helper()
	sum := sha256.New()
	for _, folder := range folders {
		files, err := os.ReadDir(folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if name := f.Name(); strings.HasSuffix(name, ".ts") || name == "tsconfig.json" {
				text, err := os.ReadFile(filepath.Join(folder, name))
				if err != nil {
					t.Fatal(err)
				}
				sum.Write([]byte(filepath.Base(folder) + "/" + name))
				sum.Write(text)
			}
		}
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

// Program is the path of an installed program. Without it the test is skipped with one line; if CI is "true" it fails.
func Program(t testing.TB, purpose, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		missing(t, purpose, name+" is not installed")
	}
	return path
}

func missing(t testing.TB, purpose, why string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(purpose + ": " + why)
	}
	t.Skip(purpose + ": " + why)
}
