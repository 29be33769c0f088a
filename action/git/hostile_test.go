package git_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/actiontest"
	"github.com/stepwell/stepwell/action/git"
	"github.com/stepwell/stepwell/action/outbound"
)

// Malformed params are refused before git is called, with every problem.
func TestRefusedValues(t *testing.T) {
	all := newRig(t, git.Options{Protocols: []string{"https", "http", "ssh", "file"}}, outbound.Options{})
	some := newRig(t, git.Options{}, outbound.Options{})
	t.Setenv("PATH", t.TempDir()) // no git
	tests := map[string]struct {
		rig    *rig
		params params
		text   string
	}{
		"helper":               {all, params{"repo": "ext::sh -c touch% /tmp/x"}, "repo:"},
		"helper without space": {all, params{"repo": "ext::touch"}, "repo:"},
		"option":               {all, params{"repo": "--upload-pack=touch"}, "repo:"},
		"option as host":       {all, params{"repo": "ssh://-oProxyCommand=touch/x"}, "repo:"},
		"option as user":       {all, params{"repo": "ssh://-l@example.org/x"}, "repo:"},
		"option as scp host":   {all, params{"repo": "git@-oProxyCommand=touch:x"}, "repo:"},
		"password in it":       {all, params{"repo": "https://me:hunter22@example.org/x"}, "holds credentials"},
		"user in it":           {all, params{"repo": "https://hunter22@example.org/x"}, "holds credentials"},
		"ssh password in it":   {all, params{"repo": "ssh://me:hunter22@example.org/x"}, "holds credentials"},
		"query":                {all, params{"repo": "https://example.org/x?a=b"}, "repo:"},
		"newline":              {all, params{"repo": "https://example.org/x\nurl = ext::sh"}, "repo:"},
		"no path":              {all, params{"repo": "https://example.org"}, "repo:"},
		"port":                 {all, params{"repo": "https://example.org:99999/x"}, "repo:"},
		"host":                 {all, params{"repo": "https://exa$(touch)mple.org/x"}, "repo:"},
		"file on a host":       {all, params{"repo": "file://example.org/x"}, "repo:"},
		"relative file":        {all, params{"repo": "../x"}, "repo:"},
		"file":                 {some, params{"repo": "file:///etc"}, "the protocol file is not allowed"},
		"plain path":           {some, params{"repo": "/etc"}, "the protocol file is not allowed"},
		"http":                 {some, params{"repo": "http://example.org/x"}, "the protocol http is not allowed"},
		"ssh":                  {some, params{"repo": "git@example.org:x"}, "the protocol ssh is not allowed"},
		"git":                  {all, params{"repo": "git://example.org/x"}, "known protocol"},
		"ref option":           {all, params{"ref": "--upload-pack=touch"}, "ref:"},
		"ref range":            {all, params{"ref": "a..b"}, "ref:"},
		"ref spec":             {all, params{"ref": "a:b"}, "ref:"},
		"ref pattern":          {all, params{"ref": "refs/*"}, "ref:"},
		"ref newline":          {all, params{"ref": "a\nb"}, "ref:"},
		"path up":              {all, params{"path": "../x"}, "path:"},
		"path absolute":        {all, params{"path": "/etc"}, "path:"},
		"path .git":            {all, params{"path": "a/.GIT/hooks"}, "path:"},
		"sparse up":            {all, params{"sparse": []any{"a/../../x"}}, "sparse:"},
		"sparse pattern":       {all, params{"sparse": []any{"!a"}}, "sparse:"},
		"sparse newline":       {all, params{"sparse": []any{"a\n/*"}}, "sparse:"},
		"sparse option":        {all, params{"sparse": []any{"--no-cone"}}, "sparse:"},
		"sparse root":          {all, params{"sparse": []any{"."}}, "sparse:"},
		"keep without dir":     {all, params{"keep": "always"}, "keep:"},
		"two credentials":      {all, params{"credential": params{"password": "hunter22", "bearer": "hunter22"}}, "beside bearer"},
		"command":              {all, params{"command": []any{}}, "command:"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			for key, value := range map[string]any{"repo": "https://example.org/x", "command": "true"} {
				if _, given := test.params[key]; !given {
					test.params[key] = value
				}
			}
			got := test.rig.run(t, actiontest.Call{Params: test.params})
			if code := stepwell.CodeOf(got.Err); code != stepwell.CodeInvalid && code != stepwell.CodeDenied || !strings.Contains(got.Err.Error(), test.text) || strings.Contains(got.Err.Error(), "hunter22") {
				t.Errorf("error %q (%s), want %q", got.Err, code, test.text)
			}
		})
	}
}

// A private repository opens with the right credential only, and nothing of it is in the command's reach, the cache, git's
// arguments or the log.
func TestCredential(t *testing.T) {
	const password = "correct-horse-battery"
	o := newOrigin(t)
	o.commit(map[string]string{"name": "one", "deep/er/name": "deeper"})
	o.password = password
	r := o.rig()
	dir := t.TempDir()
	record := filepath.Join(t.TempDir(), "argv")
	wrapper := filepath.Join(t.TempDir(), "git")
	o.write(wrapper, fmt.Sprintf("#!/bin/sh\necho \"$@\" >> %s\nexec %s \"$@\"\n", record, program(t)))
	t.Setenv("PATH", filepath.Dir(wrapper)+":"+os.Getenv("PATH"))
	right := actiontest.Call{Dir: dir, Params: params{"repo": o.url, "command": "env; cat .git/config; cat name", "dir": "files", "keep": "always", "sparse": []any{"deep"}, "credential": params{"username": "me", "password": password}}}
	got := r.run(t, right)
	if out := succeeds(t, got); !strings.HasSuffix(out["stdout"].(string), "one") {
		t.Errorf("outputs %v", out)
	}
	for _, line := range got.Logs {
		leaks(t, "the log", line.Message, password)
	}
	leaks(t, "the outputs", fmt.Sprint(got.Outputs), password)
	if raw, err := os.ReadFile(record); err != nil || !strings.Contains(string(raw), "ls-remote") {
		t.Errorf("arguments %q, %v", raw, err)
	}
	for _, root := range []string{dir, r.o.Cache, filepath.Dir(record)} {
		_ = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.Type().IsRegular() {
				raw, err := os.ReadFile(path)
				if err != nil {
					t.Error(err)
				}
				leaks(t, path, string(raw), password)
			}
			return err
		})
	}
	for name, credential := range map[string]any{"none": nil, "wrong": params{"password": "wrong-password"}, "bearer": params{"bearer": password}} {
		t.Run(name, func(t *testing.T) {
			call := actiontest.Call{Params: params{"repo": o.url, "command": "cat name", "ref": succeeds(t, got)["commit"]}}
			if credential != nil {
				call.Params["credential"] = credential
			}
			got := r.run(t, call) // although the commit is in the cache
			fails(t, got, stepwell.CodeDenied, true, "git ls-remote")
			leaks(t, "the error", got.Err.Error(), "wrong-password")
		})
	}
}

func leaks(t *testing.T, where, text, secret string) {
	t.Helper()
	for _, form := range []string{secret, "bWU6Y29ycmVjdC1ob3JzZS1iYXR0ZXJ5"} { // as basic authentication has it
		if strings.Contains(text, form) {
			t.Errorf("%s shows the credential", where)
		}
	}
}

// Addresses are allowed as for util.http, at the connection that git makes.
func TestGuard(t *testing.T) {
	o := newOrigin(t)
	o.commit(map[string]string{"name": "one"})
	r := newRig(t, git.Options{CAFile: o.caFile}, outbound.Options{})
	got := r.run(t, actiontest.Call{Params: params{"repo": o.url, "command": "true"}})
	fails(t, got, stepwell.CodeInvalid, true, "leads to the loopback address 127.0.0.1")
	if hint := stepwell.HintOf(got.Err); !strings.Contains(hint, "allow_hosts") {
		t.Errorf("hint %q", hint)
	}
	r = newRig(t, git.Options{Protocols: []string{"http", "ssh"}}, outbound.Options{})
	for _, repo := range []string{"http://127.0.0.1:1/x", "http://169.254.169.254/latest", "http://[::1]:1/x", "ssh://git@127.0.0.1/x", "git@localhost:x"} {
		got := r.run(t, actiontest.Call{Params: params{"repo": repo, "command": "true"}})
		fails(t, got, stepwell.CodeInvalid, true, "which steps may not reach")
	}
	if n := len(o.requests()); n != 0 {
		t.Errorf("%d requests came through", n)
	}
}

// A redirect is not followed: it could lead inside, or take the credential along.
func TestRedirect(t *testing.T) {
	o := newOrigin(t)
	o.commit(map[string]string{"name": "one"})
	o.answer = func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasPrefix(r.URL.Path, "/moved") {
			return false
		}
		http.Redirect(w, r, strings.TrimPrefix(r.URL.RequestURI(), "/moved"), http.StatusMovedPermanently)
		return true
	}
	got := o.rig().run(t, actiontest.Call{Params: params{"repo": o.server.URL + "/moved/repo.git", "command": "true"}})
	if got.Err == nil || !action.IsFail(got.Err) {
		t.Errorf("error %v", got.Err)
	}
	if n := len(o.requests()); n != 1 {
		t.Errorf("%d requests, want one", n)
	}
}

// A missing repository or ref fails the step at once. A server that may come back is asked again, within the attempt too.
func TestFailures(t *testing.T) {
	o := newOrigin(t)
	o.commit(map[string]string{"name": "one", "file": "x"})
	r := o.rig()
	fails(t, r.run(t, actiontest.Call{Params: params{"repo": o.url, "ref": "gone", "command": "true"}}), stepwell.CodeNotFound, true, "has no gone")
	fails(t, r.run(t, actiontest.Call{Params: params{"repo": o.server.URL + "/other.git", "command": "true"}}), stepwell.CodeNotFound, true, "")
	fails(t, r.run(t, actiontest.Call{Params: params{"repo": o.url, "ref": strings.Repeat("a", 40), "command": "true"}}), stepwell.CodeNotFound, true, "")
	fails(t, r.run(t, actiontest.Call{Params: params{"repo": o.url, "path": "gone", "command": "true"}}), stepwell.CodeInvalid, true, "path: gone")
	fails(t, r.run(t, actiontest.Call{Params: params{"repo": o.url, "path": "file", "command": "true"}}), stepwell.CodeInvalid, true, "is not a folder")
	away := 1
	o.set(func(o *origin) {
		o.answer = func(w http.ResponseWriter, _ *http.Request) bool {
			away--
			if away >= 0 {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
			return away >= 0
		}
	})
	succeeds(t, r.run(t, actiontest.Call{Params: params{"repo": o.url, "command": "true"}}))
	away = 1000
	fails(t, r.run(t, actiontest.Call{Params: params{"repo": o.url, "command": "true"}}), stepwell.CodeUnavailable, false, "503")
}

// Nothing of the repository runs or leads out by being checked out.
func TestHostileRepository(t *testing.T) {
	o := newOrigin(t)
	trace := filepath.Join(t.TempDir(), "trace")
	touch := "#!/bin/sh\ntouch " + trace + "\n"
	o.commit(map[string]string{
		".gitattributes":          "* filter=evil diff=evil merge=evil\n*.x ident\n",
		".gitconfig":              "[filter \"evil\"]\n\tsmudge = touch " + trace + "\n[core]\n\tfsmonitor = touch " + trace + "\n",
		".githooks/post-checkout": touch,
		".lfsconfig":              "[lfs]\n\turl = http://127.0.0.1:1/\n",
		"name":                    "one",
	})
	if err := errors.Join(os.Symlink("/etc", filepath.Join(o.work, "outside")), os.Symlink("../../../../../..", filepath.Join(o.work, "up"))); err != nil {
		t.Fatal(err)
	}
	o.push()
	r := o.rig()
	out := succeeds(t, r.run(t, actiontest.Call{Params: params{"repo": o.url, "command": "cat name; git config --local --list | grep -c evil; true"}}))
	if !strings.HasPrefix(fmt.Sprint(out["stdout"]), "one") {
		t.Errorf("outputs %v", out)
	}
	for _, path := range []string{"outside", "up"} {
		fails(t, r.run(t, actiontest.Call{Params: params{"repo": o.url, "path": path, "command": "true"}}), stepwell.CodeDenied, true, "leads from "+path+" out of it")
	}
	o.commit(map[string]string{".gitmodules": "[submodule \"x\"]\n\tpath = x\n\turl = ../x.git\n\tupdate = !touch " + trace + "\n"})
	fails(t, r.run(t, actiontest.Call{Params: params{"repo": o.url, "command": "true"}}), stepwell.CodeInvalid, true, "disallowed submodule update setting")
	if _, err := os.Stat(trace); err == nil {
		t.Error("the repository had a program run")
	}
}

// Submodules come along when asked for, by the allowed protocols alone.
func TestSubmodules(t *testing.T) {
	o := newOrigin(t)
	other := filepath.Join(filepath.Dir(o.bare), "other.git")
	o.commit(map[string]string{"part": "part"})
	o.git(filepath.Dir(o.bare), "clone", "-q", "--bare", o.bare, other)
	id := o.git(o.work, "rev-parse", "HEAD")
	module := func(url string) {
		o.write(filepath.Join(o.work, ".gitmodules"), "[submodule \"sub\"]\n\tpath = sub\n\turl = "+url+"\n")
		o.git(o.work, "update-index", "--add", "--cacheinfo", "160000,"+id+",sub")
		if err := os.MkdirAll(filepath.Join(o.work, "sub"), 0o755); err != nil {
			t.Fatal(err)
		}
		o.git(o.work, "add", ".gitmodules")
		o.git(o.work, "commit", "-q", "-m", "module")
		o.git(o.work, "push", "-q", "--force", o.bare, "HEAD:refs/heads/main")
	}
	r := o.rig()
	module("../other.git")
	call := actiontest.Call{Params: params{"repo": o.url, "command": "cat sub/part || echo none"}}
	if out := succeeds(t, r.run(t, call)); out["stdout"] != "none" {
		t.Errorf("without submodules: %v", out)
	}
	call.Params["submodules"] = true
	if out := succeeds(t, r.run(t, call)); out["stdout"] != "part" {
		t.Errorf("with submodules: %v", out)
	}
	all := newRig(t, git.Options{CAFile: o.caFile, Protocols: []string{"https", "file"}}, outbound.Options{AllowCIDRs: loopback})
	for _, url := range []string{"file://" + other, other, "ext::sh -c true"} {
		module(url)
		fails(t, all.run(t, call), stepwell.CodeDenied, true, "not allowed")
	}
	module("https://169.254.169.254/other.git")
	fails(t, r.run(t, call), stepwell.CodeInvalid, true, "which steps may not reach")
}

// More than the limits is fetched by nobody, and the commits of a long history are not fetched at all.
func TestLimits(t *testing.T) {
	o := newOrigin(t)
	for range 5 {
		o.write(filepath.Join(o.work, "big"), noise(1<<20))
		o.git(o.work, "add", "-A")
		o.git(o.work, "commit", "-q", "-m", "more")
	}
	o.push()
	small := newRig(t, git.Options{CAFile: o.caFile, MaxBytes: 4 << 20}, outbound.Options{AllowCIDRs: loopback})
	succeeds(t, small.run(t, actiontest.Call{Params: params{"repo": o.url, "command": "true"}}))
	if size := folderSize(small.o.Cache); size > 2<<20 {
		t.Errorf("%d bytes of a history of 5 MiB were fetched", size)
	}
	fails(t, small.run(t, actiontest.Call{Params: params{"repo": o.url, "depth": 0, "command": "true"}}), stepwell.CodeLimit, true, "more than 4194304 bytes")
	o.commit(map[string]string{"one/big": noise(1 << 20), "two/small": "two"})
	succeeds(t, small.run(t, actiontest.Call{Params: params{"repo": o.url, "sparse": []any{"two"}, "command": "cat two/small; ! test -e one"}}))
}

// A repository of a few hundred bytes that names more files than memory holds is refused before it is checked out.
func TestTreeBomb(t *testing.T) {
	o := newOrigin(t)
	o.commit(map[string]string{"f": "x"})
	blob := o.git(o.work, "rev-parse", "HEAD:f")
	kind, id := "100644 blob", blob
	for range 8 {
		var entries strings.Builder
		for i := range 10 {
			fmt.Fprintf(&entries, "%s %s\tn%d\n", kind, id, i)
		}
		o.write(filepath.Join(o.work, "..", "entries"), entries.String())
		id = o.git(o.work, "-c", "alias.tree=!git mktree < "+filepath.Join(o.work, "..", "entries"), "tree")
		kind = "040000 tree"
	}
	commit := o.git(o.work, "commit-tree", "-m", "bomb", id)
	o.git(o.work, "push", "-q", "--force", o.bare, commit+":refs/heads/bomb")
	fails(t, o.rig().run(t, actiontest.Call{Params: params{"repo": o.url, "ref": "bomb", "command": "true"}}), stepwell.CodeLimit, true, "more than 1000000 files")
}

// A server that does not answer holds the step for clone_seconds; a cancel ends it at once.
func TestTimeAndCancel(t *testing.T) {
	o := newOrigin(t)
	o.commit(map[string]string{"name": "one"})
	reached := make(chan struct{}, 10)
	o.answer = func(_ http.ResponseWriter, r *http.Request) bool {
		select {
		case reached <- struct{}{}:
		default:
		}
		<-r.Context().Done()
		return true
	}
	r := o.rig()
	fails(t, r.run(t, actiontest.Call{Params: params{"repo": o.url, "command": "true", "clone_seconds": 2}}), stepwell.CodeTimeout, false, "took longer than 2s")
	for len(reached) > 0 {
		<-reached
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan actiontest.Result, 1)
	go func() {
		ended <- actiontest.Run(ctx, r.action, actiontest.Call{Params: params{"repo": o.url, "command": "true"}})
	}()
	<-reached
	cancel()
	select {
	case got := <-ended:
		if stepwell.CodeOf(got.Err) != stepwell.CodeCancelled {
			t.Errorf("error %v", got.Err)
		}
	case <-time.After(30 * time.Second):
		t.Error("a cancelled step continues")
	}
}

func noise(size int) string {
	raw := make([]byte, size)
	_, _ = rand.Read(raw)
	return string(raw)
}

func folderSize(dir string) (total int64) {
	_ = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if info, bad := entry.Info(); err == nil && bad == nil && info.Mode().IsRegular() {
			total += info.Size()
		}
		return err
	})
	return total
}
