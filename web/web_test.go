package web_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"html"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/web"
)

// What dist is built from; the same list is in ui/pack.mjs.
var source = regexp.MustCompile(`^(src/|public/|(index\.html|package-lock\.json|pack\.mjs|tsconfig\.json|vite\.config\.ts)$)`)

// sources are the files of ui that git would commit, with slashes.
func sources(t *testing.T) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir("ui", func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && (d.Name() == "node_modules" || d.Name() == "out") {
			return filepath.SkipDir
		}
		if err == nil && !d.IsDir() {
			files = append(files, filepath.ToSlash(strings.TrimPrefix(name, "ui"+string(filepath.Separator))))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(files)
	return files
}

func TestDistIsOfItsSources(t *testing.T) {
	sum := sha256.New()
	for _, name := range sources(t) {
		if !source.MatchString(name) || strings.HasSuffix(name, ".test.ts") || strings.HasSuffix(name, ".test.tsx") {
			continue
		}
		text, err := os.ReadFile(filepath.Join("ui", filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		sum.Write([]byte(name + "\n"))
		sum.Write(text)
	}
	told, err := os.ReadFile(filepath.Join("dist", "SOURCES"))
	if err != nil {
		t.Fatal(err)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != strings.TrimSpace(string(told)) {
		t.Error("web/ui has changed since web/dist was built: run web/build, and commit both")
	}
}

func TestFilesAreShort(t *testing.T) {
	for _, name := range sources(t) {
		if ext := filepath.Ext(name); ext != ".ts" && ext != ".tsx" || strings.HasSuffix(name, "schema.d.ts") {
			continue
		}
		text, err := os.ReadFile(filepath.Join("ui", filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(text), "\n"); n > 300 {
			t.Errorf("web/ui/%s has %d lines: split it (300 at most)", name, n)
		}
	}
}

func TestLockNamesNoRegistry(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("ui", "package-lock.json"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), `"resolved"`) {
		t.Error(`package-lock.json says where packages were downloaded: keep omit-lockfile-registry-resolved in .npmrc`)
	}
}

func get(t *testing.T, h http.Handler, path string, header ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequest("GET", path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// pages serve below a path, and ask an API.
func pages(t *testing.T, base, version string, api http.Handler) http.Handler {
	t.Helper()
	make, err := web.Handler(base, version)
	if err != nil {
		t.Fatal(err)
	}
	return make(api)
}

func TestHandler(t *testing.T) {
	h := pages(t, "/below/", "v1.2.3", http.NotFoundHandler())
	nonces := map[string]bool{}
	for range 2 {
		page := httptest.NewRecorder()
		h.ServeHTTP(page, httptest.NewRequest("GET", "/executions/x", nil))
		found := regexp.MustCompile(`stepwell-nonce" content="(\w{20,})"`).FindStringSubmatch(page.Body.String())
		if found == nil || !strings.Contains(page.Header().Get("Content-Security-Policy"), "'nonce-"+found[1]+"'") {
			t.Fatalf("the nonce of the page is not that of its policy:\n%s\n%s", page.Header(), page.Body)
		}
		nonces[found[1]] = true
		for _, want := range []string{`<base href="/below/"`, `content="v1.2.3"`, `assets/app.js`} {
			if !strings.Contains(page.Body.String(), want) {
				t.Errorf("the page lacks %s:\n%s", want, page.Body)
			}
		}
		if p := page.Header().Get("Content-Security-Policy"); strings.Contains(p, "unsafe") {
			t.Errorf("policy %s", p)
		}
	}
	if len(nonces) != 2 {
		t.Error("two answers share a nonce")
	}

	packed := get(t, h, "/assets/app.js", "Accept-Encoding", "gzip")
	if packed.StatusCode != 200 || packed.Header.Get("Content-Encoding") != "gzip" || packed.Header.Get("Content-Type") != "text/javascript; charset=utf-8" {
		t.Errorf("%d %v", packed.StatusCode, packed.Header)
	}
	if plain := get(t, h, "/assets/app.js"); plain.StatusCode != 200 || plain.Header.Get("Content-Encoding") != "" {
		t.Errorf("%d %v", plain.StatusCode, plain.Header)
	}
	if again := get(t, h, "/assets/app.js", "If-None-Match", packed.Header.Get("ETag")); again.StatusCode != 304 {
		t.Errorf("an unchanged file is answered %d", again.StatusCode)
	}
	if none := get(t, h, "/assets/nosuch.js"); none.StatusCode != 404 {
		t.Errorf("a file that is not there is answered %d", none.StatusCode)
	}
}

// TestPageNamesItsFiles: a page names the code of the screen that its address shows; every file is there.
func TestPageNamesItsFiles(t *testing.T) {
	h := pages(t, "/", "v1", http.NotFoundHandler())
	links := regexp.MustCompile(`<link rel="(?:modulepreload|stylesheet)"[^>]* href="\./([^"]+)"`)
	for path, want := range map[string]string{
		"/": "assets/Home.js", "/executions": "assets/Executions.js", "/executions/x": "assets/Execution.js", "/executions/x/log": "assets/Execution.css",
		"/executions/x/compare/y": "assets/Compare.js", "/pipelines/new": "assets/Editor.js", "/pipelines/new/edit": "assets/Editor.js",
		"/executions/x/graph?at=1": "assets/Execution.js",
	} {
		page := httptest.NewRecorder()
		h.ServeHTTP(page, httptest.NewRequest("GET", path, nil))
		named := map[string]bool{}
		for _, link := range links.FindAllStringSubmatch(page.Body.String(), -1) {
			named[link[1]] = true
			if file := get(t, h, "/"+link[1]); file.StatusCode != 200 {
				t.Errorf("the page of %s names %s, which is answered %d", path, link[1], file.StatusCode)
			}
		}
		if !named[want] || !strings.HasSuffix(strings.TrimSpace(page.Body.String()), "</html>") {
			t.Errorf("the page of %s does not name %s, or is cut:\n%s", path, want, page.Body)
		}
	}
}

// TestPageHasAnswers: a page is given with what the API answers, to who asks for it, to what its screen asks first.
func TestPageHasAnswers(t *testing.T) {
	late := make(chan struct{})
	t.Cleanup(func() { close(late) })
	api := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != "GET" || r.Header.Get("Cookie") != "session=1" || r.Header.Get("Accept") != "application/json" || r.Header.Get("Accept-Encoding") != "" {
			t.Errorf("%s %s is asked with %v", r.Method, r.URL, r.Header)
		}
		switch r.URL.Path {
		case "/api/v1/me":
			w.WriteHeader(http.StatusUnauthorized)
		case "/api/v1/approvals":
			select {
			case <-late:
			case <-r.Context().Done():
			}
		case "/api/v1/executions/long/graph":
			_, _ = w.Write(bytes.Repeat([]byte(" "), 1<<20))
		}
		_, _ = io.WriteString(w, `{"at":"`+r.URL.RequestURI()+`</script>"}`+"\n")
	})
	h := pages(t, "/", "v1", api)
	data := regexp.MustCompile(`<script type="application/json" data-ask="([^"]*)">(.*)</script>`)
	for path, want := range map[string][]string{
		"/executions/x":        {"executions/x/graph", "executions/x?steps=1"},
		"/executions/long":     {"executions/long?steps=1"},
		"/executions/a&b/log/": {"executions/a&b/graph", "executions/a&b/logs?tail=200", "executions/a&b?steps=1"},
		"/executions/x/graph":  {"executions/x/graph", "executions/x?steps=1"},
		"/executions/x?at=1":   nil, // it is not known what will be asked
		"/no/such/page":        nil,
	} {
		r := httptest.NewRequest("GET", path, nil)
		r.Header = http.Header{"Cookie": {"session=1"}, "Accept": {"text/html"}, "Accept-Encoding": {"gzip"}, "If-None-Match": {`"x"`}}
		var got []string
		var page *httptest.ResponseRecorder
		for range 50 { // a busy machine may be late
			page, got = httptest.NewRecorder(), nil
			h.ServeHTTP(page, r)
			for _, found := range data.FindAllStringSubmatch(page.Body.String(), -1) {
				ask := html.UnescapeString(found[1])
				got = append(got, ask)
				if found[2] != `{"at":"/api/v1/`+ask+`\u003c/script>"}` {
					t.Errorf("the answer to %s is %s", ask, found[2])
				}
			}
			if slices.Sort(got); slices.Equal(got, want) {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("the page of %s has answers to %q, not %q", path, got, want)
		}
		if !strings.HasSuffix(strings.TrimSpace(page.Body.String()), "</html>") {
			t.Errorf("the page of %s is cut:\n%s", path, page.Body)
		}
	}
	head := httptest.NewRecorder()
	h.ServeHTTP(head, httptest.NewRequest("HEAD", "/executions/x", nil))
	if head.Code != 200 || data.MatchString(head.Body.String()) {
		t.Errorf("HEAD is answered %d %s", head.Code, head.Body)
	}
}

// install installs what web/build does. Without node the test is skipped with one line; with CI=true it fails.
func install(t *testing.T) {
	t.Helper()
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			missing(t, program+" is not installed")
		}
	}
	lock, err := os.ReadFile(filepath.Join("ui", "package-lock.json"))
	if err != nil {
		t.Fatal(err)
	}
	mark := filepath.Join("ui", "node_modules", ".installed")
	if have, err := os.ReadFile(mark); err != nil || string(have) != string(lock) {
		ci := exec.Command("npm", "ci", "--ignore-scripts")
		ci.Dir = "ui"
		if out, err := ci.CombinedOutput(); err != nil {
			missing(t, "npm ci: "+err.Error()+"\n"+string(out))
		}
		if err := os.WriteFile(mark, lock, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// npm runs a script of the pages, installed before.
func npm(t *testing.T, env []string, args ...string) {
	t.Helper()
	install(t)
	cmd := exec.Command("npm", append([]string{"run", "--silent"}, args...)...)
	cmd.Dir, cmd.Env = "ui", append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("npm run %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func missing(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal("the pages are not tested: " + why)
	}
	t.Skip("the pages are not tested: " + why)
}

func TestPages(t *testing.T) {
	npm(t, nil, "test")
}

// TestBuild checks the types, which web/build does, and builds the pages again: the committed ones are byte for byte of their sources.
func TestBuild(t *testing.T) {
	install(t)
	dir := t.TempDir()
	build := exec.Command("./build")
	build.Env = append(os.Environ(), "UI_DIST="+dir)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("web/build: %v\n%s", err, out)
	}
	for _, pair := range [][2]string{{"dist", dir}, {dir, "dist"}} {
		err := filepath.WalkDir(pair[0], func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			rel, _ := filepath.Rel(pair[0], name) // below it
			a, b := unpacked(t, name), unpacked(t, filepath.Join(pair[1], rel))
			if a != b {
				t.Errorf("%s is another when built again: run web/build, and commit it", rel)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// unpacked is what a file of dist holds, "" if there is none. Another Node may pack the same text otherwise.
func unpacked(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(name, ".gz") {
		return string(raw)
	}
	r, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestBrowser uses the pages in a real Chromium, as people do, against a real server: the frame and the editor; with STEPWELL_PAGES=all
// every page, which takes minutes.
func TestBrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("short")
	}
	chromium := os.Getenv("CHROMIUM")
	if chromium == "" {
		chromium = "/usr/bin/chromium"
	}
	if _, err := os.Stat(chromium); err != nil {
		missing(t, "no Chromium at "+chromium+"; CHROMIUM names another")
	}
	program := filepath.Join(t.TempDir(), "stepwell")
	if out, err := exec.Command("go", "build", "-o", program, "../cmd/stepwell").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	some := []string{"--", "test/frame.test.ts", "test/editor.test.ts"}
	if os.Getenv("STEPWELL_PAGES") == "all" {
		some = nil
	}
	npm(t, []string{"STEPWELL_BINARY=" + program, "CHROMIUM=" + chromium}, append([]string{"browser"}, some...)...)
}
