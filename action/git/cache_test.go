package git_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action/actiontest"
	"github.com/stepwell/stepwell/action/git"
	"github.com/stepwell/stepwell/action/outbound"
)

// cached is the one repository in the cache.
func (r *rig) cached(t *testing.T) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(r.o.Cache, "*.git"))
	if err != nil || len(found) != 1 {
		t.Fatalf("the cache has %v, %v", found, err)
	}
	return found[0]
}

// Commits in the cache are not fetched again. Broken or planted files in it, and those that a killed git has left, are no obstacle.
func TestCache(t *testing.T) {
	o := newOrigin(t)
	o.commit(map[string]string{"name": "one"})
	r := o.rig()
	call := actiontest.Call{Params: params{"repo": o.url, "command": "cat name"}}
	succeeds(t, r.run(t, call))
	fetched := func() (n int) {
		for _, request := range o.requests() {
			if request.Method == "POST" && request.ContentLength != 0 {
				n++
			}
		}
		return n
	}
	before := fetched()
	succeeds(t, r.run(t, call))
	again := fetched() - before
	trace := filepath.Join(t.TempDir(), "trace")
	spoil := map[string]func(dir string) error{
		"a pack is cut": func(dir string) error {
			packs, err := filepath.Glob(filepath.Join(dir, "objects", "pack", "*.pack"))
			for _, path := range packs {
				_ = os.Chmod(path, 0o600)
				err = os.Truncate(path, 40)
			}
			return err
		},
		"no repository": func(dir string) error { return os.Remove(filepath.Join(dir, "HEAD")) },
		"left behind and planted": func(dir string) error {
			for _, name := range []string{"shallow.lock", "config.lock", "packed-refs.lock", "HEAD.lock"} {
				o.write(filepath.Join(dir, name), "")
			}
			o.write(filepath.Join(dir, "config"), "[core]\n\tsshCommand = touch "+trace+"\n\tgitProxy = touch "+trace+"\n[remote \"origin\"]\n\turl = ext::touch "+trace+"\n\tuploadpack = touch "+trace+"\n")
			for _, name := range []string{"post-checkout", "reference-transaction", "pre-auto-gc"} {
				o.write(filepath.Join(dir, "hooks", name), "#!/bin/sh\ntouch "+trace+"\nexit 1\n")
			}
			return nil
		},
	}
	for name, change := range spoil {
		t.Run(name, func(t *testing.T) {
			if err := change(r.cached(t)); err != nil {
				t.Fatal(err)
			}
			o.commit(map[string]string{"name": name})
			if out := succeeds(t, r.run(t, call)); out["stdout"] != name {
				t.Errorf("outputs %v", out)
			}
		})
	}
	if _, err := os.Stat(trace); err == nil {
		t.Error("what was planted in the cache ran")
	}
	if again != 1 { // the list of refs
		t.Errorf("%d requests for what is in the cache", again)
	}
}

// Steps that use one repository at once do not disturb each other, whatever their commands do to their files.
func TestAtOnce(t *testing.T) {
	o := newOrigin(t)
	o.commit(map[string]string{"name": "one"})
	r := o.rig()
	var all sync.WaitGroup
	for _, command := range []string{"git config remote.origin.url x && rm -rf .git/objects && cat name", "git commit -q --allow-empty -m x; git gc -q; cat name", "chmod -R u+w .git; rm -rf .git; cat name"} {
		all.Go(func() {
			got := actiontest.Run(t.Context(), r.action, actiontest.Call{Execution: command, Params: params{"repo": o.url, "command": command}})
			if got.Err != nil || got.Outputs["stdout"] != "one" {
				t.Errorf("%s: %v, %v", command, got.Outputs, got.Err)
			}
		})
	}
	all.Wait()
	succeeds(t, r.run(t, actiontest.Call{Params: params{"repo": o.url, "command": "cat name; git log --oneline"}}))
}

// The cache gives up what was not used for long, and what was used longest ago when it is too large.
func TestPrune(t *testing.T) {
	o := newOrigin(t)
	o.commit(map[string]string{"name": noise(200_000)})
	r := newRig(t, git.Options{CAFile: o.caFile, CacheBytes: 500_000}, outbound.Options{AllowCIDRs: loopback})
	lists := func() string {
		found, _ := filepath.Glob(filepath.Join(r.o.Cache, "*.git"))
		return strings.Join(found, " ")
	}
	run := func(depth int) {
		succeeds(t, r.run(t, actiontest.Call{Params: params{"repo": o.url, "depth": depth, "command": "true"}}))
	}
	run(1)
	first := r.cached(t)
	run(2)
	long := time.Now().Add(-time.Hour)
	if err := os.Chtimes(first+".lock", long, long); err != nil || !strings.Contains(lists(), first) {
		t.Fatalf("%s, %v", lists(), err)
	}
	run(3)
	if got := lists(); strings.Contains(got, first) || strings.Count(got, ".git") != 2 {
		t.Errorf("the cache has %s", got)
	}
	old := time.Now().Add(-40 * 24 * time.Hour)
	for _, path := range strings.Fields(lists()) {
		if err := os.Chtimes(path+".lock", old, old); err != nil {
			t.Fatal(err)
		}
	}
	run(4)
	if got := lists(); strings.Count(got, ".git") != 1 {
		t.Errorf("the cache has %s", got)
	}
}

// Repositories of this machine need the protocol, and a folder that steps may read.
func TestFile(t *testing.T) {
	o := newOrigin(t)
	o.commit(map[string]string{"name": "one"})
	r := newRig(t, git.Options{Protocols: []string{"file"}}, outbound.Options{})
	for _, repo := range []string{o.bare, "file://" + o.bare} {
		if out := succeeds(t, r.run(t, actiontest.Call{Params: params{"repo": repo, "command": "cat name", "sparse": []any{"no"}}})); out["stdout"] != "one" {
			t.Errorf("outputs %v", out)
		}
	}
}

// Over ssh the key is in a file of the step alone, the server's key must be known, and ssh connects to the address that was
// checked. The ssh of this test runs git's side of the server.
func TestSSH(t *testing.T) {
	o := newOrigin(t)
	o.commit(map[string]string{"name": "one"})
	bin := t.TempDir()
	record := filepath.Join(t.TempDir(), "record")
	o.write(filepath.Join(bin, "ssh"), `#!/bin/sh
for a in "$@"; do echo "$a" >> `+record+`; last=$a; before=$key; key=$a; [ "$before" = -i ] && { ls -l "$a" | cut -c1-10; cat "$a"; } >> `+record+`; done
echo "agent=$SSH_AUTH_SOCK" >> `+record+`
exec sh -c "$last"
`)
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	t.Setenv("SSH_AUTH_SOCK", "/run/agent")
	known := filepath.Join(bin, "known hosts")
	r := newRig(t, git.Options{Protocols: []string{"ssh"}, KnownHosts: known}, outbound.Options{AllowHosts: []string{"localhost"}})
	got := r.run(t, actiontest.Call{Params: params{"repo": "ssh://git@localhost:2222" + o.bare, "command": "cat name; env", "credential": params{"ssh_key": "KEY OF TEST"}}})
	if out := succeeds(t, got); !strings.HasPrefix(out["stdout"].(string), "one") || strings.Contains(out["stdout"].(string), "KEY OF TEST") {
		t.Errorf("outputs %v", out)
	}
	raw, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"StrictHostKeyChecking=yes", "IdentitiesOnly=yes", "UserKnownHostsFile=" + known, "HostKeyAlias=[localhost]:2222", "HostName=127.0.0.1", "-rw-------\nKEY OF TEST", "agent=\n", "git@localhost"} {
		if !strings.Contains(string(raw), want) && !(strings.HasPrefix(want, "HostName") && strings.Contains(string(raw), "HostName=::1")) {
			t.Errorf("ssh did not get %q:\n%s", want, raw)
		}
	}
	if code := stepwell.CodeOf(got.Err); code != "" {
		t.Errorf("code %s", code)
	}
}
