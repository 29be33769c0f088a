package deploy

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"crypto/sha512"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stepwell/stepwell/tooltest"
)

// released is the version of the release that is tested: a tag in a clone.
const released = "0.1.0"

// published is a release as its build script leaves it, and a server that answers as GitHub and as a registry of npm do.
type published struct {
	source string // a clone with the changes of the checkout, and the tag
	dir    string // dist/release
	tools  string // folder of cosign
	key    string // the public key
	url    string // of the releases
	npm    string // of the registry
	// damaged is the name of a file that the server answers with one byte changed.
	damaged atomic.Value
}

// TestRelease builds a release of the checkout, with a key of its own, and installs it from a server on loopback in each of its
// forms into a clean root. It is deploy/release/smoke, for minutes.
func TestRelease(t *testing.T) {
	if os.Getenv("STEPWELL_TEST_RELEASE") == "" {
		t.Skip("STEPWELL_TEST_RELEASE=1 builds a release and installs it (deploy/release/smoke)")
	}
	p := buildRelease(t)
	p.serve(t)
	t.Run("files", p.testFiles)
	t.Run("archives", p.testArchives)
	t.Run("signature", p.testSignature)
	t.Run("provenance", p.testProvenance)
	t.Run("bill of materials", p.testMaterials)
	t.Run("reproducible", p.testReproducible)
	t.Run("install.sh", p.testInstall)
	t.Run("install.sh refuses", p.testInstallRefuses)
	t.Run("deb", p.testDeb)
	t.Run("rpm", p.testRPM)
	t.Run("npm", p.testNPM)
	t.Run("Homebrew", p.testHomebrew)
	t.Run("image", p.testReleasedImage)
}

// say runs a command that must succeed and returns what it wrote to both outputs.
func say(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	said, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, said)
	}
	return string(said)
}

// in is a command in a folder, with variables of its own beside those of the test.
func in(t *testing.T, dir string, env []string, name string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	return cmd
}

// cloned is a clone of a repository, with a name and a date for what is committed there.
func cloned(t *testing.T, from string) (dir string, git func(args ...string) string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "source")
	say(t, exec.CommandContext(t.Context(), "git", "clone", "-q", from, dir))
	return dir, func(args ...string) string {
		return say(t, in(t, dir, []string{"GIT_COMMITTER_DATE=2026-01-01T00:00:00Z", "GIT_AUTHOR_DATE=2026-01-01T00:00:00Z"},
			"git", append([]string{"-c", "user.name=test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false"}, args...)...))
	}
}

func buildRelease(t *testing.T) *published {
	t.Helper()
	root := tooltest.Root(t)
	p := &published{}
	var git func(args ...string) string
	p.source, git = cloned(t, root)
	changed := say(t, exec.CommandContext(t.Context(), "git", "-C", root, "ls-files", "-z", "--modified", "--deleted", "--others", "--exclude-standard", "--deduplicate"))
	for _, name := range strings.Split(strings.TrimSuffix(changed, "\x00"), "\x00") {
		if name != "" {
			say(t, exec.CommandContext(t.Context(), "rm", "-f", filepath.Join(p.source, name)))
			if _, err := os.Stat(filepath.Join(root, name)); err == nil {
				say(t, in(t, root, nil, "cp", "--preserve=mode", "--parents", name, p.source))
			}
		}
	}
	if git("status", "--porcelain") != "" {
		git("add", "--all")
		git("commit", "-q", "--no-verify", "-m", "the checkout as it is")
	}
	git("tag", "-f", "-a", "-m", released, "v"+released)

	keys := t.TempDir()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	env := []string{"COSIGN_PASSWORD=test", "COSIGN_KEY=" + filepath.Join(keys, "cosign.key"), "GORELEASER_CURRENT_TAG=v" + released, "GOFLAGS=", "CI=", "GOWORK=off"}
	p.tools = strings.TrimSpace(say(t, in(t, p.source, env, "deploy/release/build", "--tools")))
	if !strings.HasPrefix(p.tools, cache) {
		t.Fatalf("the tools are in %s", p.tools)
	}
	say(t, in(t, keys, env, filepath.Join(p.tools, "cosign"), "generate-key-pair"))
	p.key = filepath.Join(keys, "cosign.pub")
	t.Log(say(t, in(t, p.source, env, "deploy/release/build")))
	p.dir = filepath.Join(p.source, "dist/release")
	return p
}

// serve answers as GitHub does at /releases, and as a registry of npm at /npm.
func (p *published) serve(t *testing.T) {
	t.Helper()
	p.damaged.Store("")
	release := func(w http.ResponseWriter, r *http.Request) {
		name := r.PathValue("name")
		text, err := os.ReadFile(filepath.Join(p.dir, filepath.Base(name)))
		if err != nil {
			http.NotFound(w, r)
			return
		}
		if name == p.damaged.Load() {
			text[len(text)/2] ^= 1
		}
		if _, err := w.Write(text); err != nil {
			t.Log(err)
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /releases/download/v"+released+"/{name}", release)
	mux.HandleFunc("GET /releases/latest/download/{name}", release)
	mux.HandleFunc("GET /npm/{name...}", func(w http.ResponseWriter, r *http.Request) {
		file := strings.TrimPrefix(r.PathValue("name"), "@stepwell/")
		text, err := os.ReadFile(filepath.Join(p.dir, "stepwell_"+released+"_npm_"+file+".tgz"))
		if err != nil {
			http.NotFound(w, r)
			return
		}
		var about map[string]any
		unpacked := exec.CommandContext(r.Context(), "tar", "-xzO", "package/package.json")
		unpacked.Stdin = bytes.NewReader(text)
		if said, err := unpacked.Output(); err != nil || json.Unmarshal(said, &about) != nil {
			http.Error(w, "no package.json", http.StatusInternalServerError)
			return
		}
		sum := sha512.Sum512(text)
		about["dist"] = map[string]string{"tarball": p.url + "/download/v" + released + "/stepwell_" + released + "_npm_" + file + ".tgz", "integrity": "sha512-" + base64.StdEncoding.EncodeToString(sum[:])}
		if err := json.NewEncoder(w).Encode(map[string]any{"name": about["name"], "dist-tags": map[string]string{"latest": released}, "versions": map[string]any{released: about}}); err != nil {
			t.Log(err)
		}
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	p.url, p.npm = server.URL+"/releases", server.URL+"/npm/"
}

// file is the path of a file of the release: stepwell_0.1.0_SUFFIX.
func (p *published) file(suffix string) string {
	return filepath.Join(p.dir, "stepwell_"+released+"_"+suffix)
}

// damage is a copy of a file with one byte changed.
func damage(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	text[len(text)/2] ^= 1
	damaged := filepath.Join(t.TempDir(), filepath.Base(name))
	if err := os.WriteFile(damaged, text, 0o644); err != nil {
		t.Fatal(err)
	}
	return damaged
}

func digest(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// testFiles: everything that is promised is there, under the names that install.sh and the documentation use.
func (p *published) testFiles(t *testing.T) {
	wanted := []string{"checksums.txt", "checksums.txt.sigstore.json", "install.sh", "provenance.intoto.json", "provenance.sigstore.json", "stepwell.rb", "stepwell_" + released + "_npm_stepwell.tgz", "stepwell_" + released + "_vscode.vsix"}
	for _, system := range []string{"linux", "darwin", "windows"} {
		for _, processor := range []string{"amd64", "arm64"} {
			name := "stepwell_" + released + "_" + system + "_" + processor
			archive := name + ".tar.gz"
			if system == "windows" {
				archive = name + ".zip"
			}
			wanted = append(wanted, name+".cdx.json", archive)
			if system == "linux" {
				wanted = append(wanted, name+".deb", name+".rpm", "stepwell_"+released+"_image_linux_"+processor+".tar")
			}
		}
	}
	for _, platform := range []string{"linux-x64", "linux-arm64", "darwin-x64", "darwin-arm64", "win32-x64", "win32-arm64"} {
		wanted = append(wanted, "stepwell_"+released+"_npm_"+platform+".tgz")
	}
	files, err := os.ReadDir(p.dir)
	if err != nil {
		t.Fatal(err)
	}
	var there []string
	for _, f := range files {
		there = append(there, f.Name())
	}
	slices.Sort(wanted)
	if !slices.Equal(there, wanted) {
		t.Errorf("the release has\n%s\nand not\n%s", strings.Join(there, "\n"), strings.Join(wanted, "\n"))
	}
}

// testArchives: each archive has licence, manual and completions beside a static program for its own system and processor.
// Programs for other systems than this one cannot be started here.
func (p *published) testArchives(t *testing.T) {
	for _, system := range []string{"linux", "darwin", "windows"} {
		for _, processor := range []string{"amd64", "arm64"} {
			name, program, dir := p.file(system+"_"+processor+".tar.gz"), "stepwell", t.TempDir()
			if system == "windows" {
				name, program = p.file(system+"_"+processor+".zip"), "stepwell.exe"
				unzip(t, name, dir)
			} else {
				say(t, exec.CommandContext(t.Context(), "tar", "-xzf", name, "-C", dir))
			}
			for _, file := range []string{"LICENSE", "README.md", "CHANGELOG.md", "man/stepwell-run.1.gz", "completions/stepwell.bash", "completions/_stepwell", "completions/stepwell.fish"} {
				if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
					t.Errorf("%s: %v", filepath.Base(name), err)
				}
			}
			info, err := buildinfo.ReadFile(filepath.Join(dir, program))
			if err != nil {
				t.Errorf("%s: %v", filepath.Base(name), err)
				continue
			}
			built := map[string]string{}
			for _, s := range info.Settings {
				built[s.Key] = s.Value
			}
			if built["GOOS"] != system || built["GOARCH"] != processor || built["CGO_ENABLED"] != "0" {
				t.Errorf("%s: built for %s/%s, cgo %s", filepath.Base(name), built["GOOS"], built["GOARCH"], built["CGO_ENABLED"])
			}
		}
	}
}

// unzip writes the files of a zip archive below dir.
func unzip(t *testing.T, name, dir string) {
	t.Helper()
	archive, err := zip.OpenReader(name)
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	if err := os.CopyFS(dir, archive); err != nil {
		t.Fatal(err)
	}
}

// testSignature: checksums.txt is signed by the key, and names the sum of every file that goreleaser has made.
func (p *published) testSignature(t *testing.T) {
	verify := func(name string) ([]byte, error) {
		return exec.CommandContext(t.Context(), filepath.Join(p.tools, "cosign"), "verify-blob", "--key", p.key, "--insecure-ignore-tlog=true", "--bundle", filepath.Join(p.dir, "checksums.txt.sigstore.json"), name).CombinedOutput()
	}
	sums := filepath.Join(p.dir, "checksums.txt")
	if said, err := verify(sums); err != nil {
		t.Errorf("%v\n%s", err, said)
	}
	if said, err := verify(damage(t, sums)); err == nil {
		t.Errorf("changed sums are signed: %s", said)
	}
	say(t, in(t, p.dir, nil, "sha256sum", "--check", "--strict", "--quiet", "checksums.txt"))
}

// testProvenance: the signed statement names the commit and every file; a changed file is not one of them.
func (p *published) testProvenance(t *testing.T) {
	verify := func(name string) ([]byte, error) {
		return exec.CommandContext(t.Context(), filepath.Join(p.tools, "cosign"), "verify-blob-attestation", "--key", p.key, "--insecure-ignore-tlog=true", "--type", "slsaprovenance1",
			"--bundle", filepath.Join(p.dir, "provenance.sigstore.json"), name).CombinedOutput()
	}
	for _, name := range []string{p.file("linux_amd64.tar.gz"), p.file("npm_stepwell.tgz"), filepath.Join(p.dir, "stepwell.rb")} {
		if said, err := verify(name); err != nil {
			t.Errorf("%s: %v\n%s", name, err, said)
		}
		if said, err := verify(damage(t, name)); err == nil {
			t.Errorf("a changed %s is built by us: %s", name, said)
		}
	}
	var s struct {
		Subject []struct {
			Name   string
			Digest map[string]string
		}
		Predicate struct {
			BuildDefinition struct {
				ResolvedDependencies []struct{ Digest map[string]string }
			}
		}
	}
	decode(t, filepath.Join(p.dir, "provenance.intoto.json"), &s)
	for _, subject := range s.Subject {
		if sum := digest(t, filepath.Join(p.dir, subject.Name)); sum != subject.Digest["sha256"] {
			t.Errorf("%s is %s, not %v", subject.Name, sum, subject.Digest)
		}
	}
	files, err := os.ReadDir(p.dir)
	if err != nil || len(files) != len(s.Subject)+2 { // the statement and its signature
		t.Errorf("%d files, %d of them named, %v", len(files), len(s.Subject), err)
	}
	head := strings.TrimSpace(say(t, in(t, p.source, nil, "git", "rev-parse", "HEAD")))
	if commits := s.Predicate.BuildDefinition.ResolvedDependencies; len(commits) != 1 || commits[0].Digest["gitCommit"] != head {
		t.Errorf("built from %v, not %s", commits, head)
	}
}

// testMaterials: a program's bill of materials has its sum and exactly the modules that the program itself names.
func (p *published) testMaterials(t *testing.T) {
	for _, platform := range []string{"linux_amd64", "windows_arm64"} {
		program := p.program(t, platform)
		var bom struct {
			BOMFormat string `json:"bomFormat"`
			Metadata  struct {
				Component struct {
					Hashes []struct{ Content string }
				}
			}
			Components []struct{ Name, Version, PURL string }
		}
		decode(t, p.file(platform+".cdx.json"), &bom)
		if h := bom.Metadata.Component.Hashes; bom.BOMFormat != "CycloneDX" || len(h) != 1 || h[0].Content != digest(t, program) {
			t.Errorf("%s: %s about %v", platform, bom.BOMFormat, h)
		}
		info, err := buildinfo.ReadFile(program)
		if err != nil {
			t.Fatal(err)
		}
		wanted := []string{"std " + info.GoVersion}
		for _, m := range info.Deps {
			wanted = append(wanted, m.Path+" "+m.Version)
		}
		var there []string
		for _, c := range bom.Components {
			if there = append(there, c.Name+" "+c.Version); !strings.HasPrefix(c.PURL, "pkg:golang/"+c.Name+"@") {
				t.Errorf("%s is %s", c.Name, c.PURL)
			}
		}
		if len(wanted) < 30 || !slices.Equal(there, wanted) {
			t.Errorf("%s has %v and not %v", platform, there, wanted)
		}
	}
}

// program is the program of a platform: linux_amd64.
func (p *published) program(t *testing.T, platform string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(p.source, "dist", "*_"+platform+"*", "stepwell*"))
	if err != nil || len(found) != 1 {
		t.Fatal(platform, found, err)
	}
	return found[0]
}

// testReproducible: the go command alone builds the same program from the same commit in another folder.
func (p *published) testReproducible(t *testing.T) {
	dir, git := cloned(t, p.source)
	at := strings.TrimSpace(git("log", "-1", "--format=%ct"))
	head := strings.TrimSpace(git("rev-parse", "HEAD"))
	date := strings.TrimSpace(say(t, in(t, dir, nil, "date", "-u", "-d", "@"+at, "+%Y-%m-%dT%H:%M:%SZ")))
	const pkg = "github.com/stepwell/stepwell/manual"
	flags := fmt.Sprintf("-s -w -X %[1]s.version=v%[2]s -X %[1]s.commit=%[3]s -X %[1]s.date=%[4]s", pkg, released, head, date)
	again := path.Join(dir, "again")
	say(t, in(t, dir, []string{"CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64", "GOWORK=off", "GOFLAGS="}, "go", "build", "-trimpath", "-ldflags", flags, "-o", again, "./cmd/stepwell"))
	if a, b := digest(t, again), digest(t, p.program(t, "linux_amd64")); a != b {
		t.Errorf("built again it is %s, not %s", a, b)
	}
	vsix := path.Join(dir, "again.vsix")
	say(t, in(t, dir, []string{"TZ=Asia/Tokyo"}, "deploy/release/extension", released, at, vsix))
	if a, b := digest(t, vsix), digest(t, p.file("vscode.vsix")); a != b {
		t.Errorf("the extension for VS Code, built again, is %s, not %s", a, b)
	}
}
