package sandbox_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/sandbox"
	"github.com/stepwell/stepwell/sandbox/sandboxtest"
)

func TestMain(m *testing.M) {
	if err := sandbox.Close(); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

const secret = "only the server knows this"

// place is a working directory with a data directory in it, and what a command has for itself.
type place struct {
	t              *testing.T
	work, data     string
	key, own, free string
	inherited      *os.File
}

func newPlace(t *testing.T) *place {
	root := t.TempDir()
	if err := os.Chmod(filepath.Dir(root), 0o755); err != nil { // other users are to come this far
		t.Fatal(err)
	}
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	p := &place{t: t, work: filepath.Join(root, "work"), own: filepath.Join(root, "own")}
	p.data, p.free = filepath.Join(p.work, ".stepwell"), filepath.Join(p.work, "free")
	p.key = filepath.Join(p.data, "stepwell.db.key")
	for _, dir := range []string{p.work, p.own, p.free} {
		p.must(os.MkdirAll(dir, 0o755))
	}
	p.must(os.Mkdir(p.data, 0o700))
	for _, name := range []string{p.key, filepath.Join(p.data, "stepwell.db")} {
		p.must(os.WriteFile(name, []byte(secret), 0o600))
	}
	p.must(os.WriteFile(filepath.Join(p.work, "input.txt"), []byte("input"), 0o644))
	return p
}

func (p *place) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// ways are the sandboxes that there can be here; each is named in the log.
func (p *place) ways() map[string]*sandbox.Sandbox {
	ways := map[string]*sandbox.Sandbox{}
	for name, o := range map[string]sandbox.Options{"landlock": {}, "user": {User: "nobody"}} {
		o.Folders, o.Hidden = []string{p.work}, []string{p.data, filepath.Join(p.work, "stepwell.yaml")}
		s, err := sandbox.New(o)
		if err != nil {
			if stepwell.CodeOf(err) != stepwell.CodeDenied || stepwell.HintOf(err) == "" {
				p.t.Fatalf("%s: %v", name, err)
			}
			p.t.Logf("%s: refused here: %v", name, err)
			continue
		}
		p.t.Logf("%s: commands are confined %s", name, s)
		ways[name] = s
	}
	return ways
}

// run runs a line for the shell in the sandbox and gives all that it says.
func (p *place) run(s *sandbox.Sandbox, line string) (string, error) {
	p.t.Helper()
	var out bytes.Buffer
	cmd := exec.Command("/bin/sh", "-c", line)
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.work, &out, &out
	cmd.Env = []string{"PATH=/usr/bin:/bin", "FOUND=" + secret, "OWN=" + p.own, "KEY=" + p.key, "DATA=" + p.data, fmt.Sprintf("SERVER=%d", os.Getpid())}
	if s == nil {
		cmd.ExtraFiles = []*os.File{p.inherited}
		err := cmd.Run()
		return out.String(), err
	}
	p.must(os.RemoveAll(p.own)) // it may be another user's by now
	p.must(os.Mkdir(p.own, 0o755))
	p.must(s.Own(p.own))
	p.must(s.Start(cmd, p.own))
	err := cmd.Wait()
	return out.String(), err
}

// TestAttacks: nothing that a command tries gives it what is hidden.
func TestAttacks(t *testing.T) {
	p := newPlace(t)
	inherited, err := os.Open(p.key) // as if the server's parent had left it open
	p.must(err)
	defer inherited.Close()
	uninherit(t, inherited)
	p.inherited = inherited
	p.must(os.Symlink(p.data, filepath.Join(p.work, "link")))
	p.must(os.Link(p.key, filepath.Join(p.work, "alias")))
	attacks := map[string]string{
		"the key":                `cat "$KEY"`,
		"the database":           `cat "$DATA/stepwell.db"`,
		"a relative path":        `cat free/../.stepwell/stepwell.db.key`,
		"a link that was there":  `cat link/stepwell.db.key`,
		"a link that it makes":   `ln -s "$KEY" "$OWN/x"; cat "$OWN/x"`,
		"a hard link":            `ln "$KEY" "$OWN/y"; cat "$OWN/y"`,
		"a hard link there":      `cat alias`,
		"a moved folder":         `mv .stepwell free/z; cat free/z/stepwell.db.key`,
		"a changed mode":         `chmod -R a+rwX .stepwell; cat "$KEY"`,
		"the environment":        `grep -q PATH= /proc/$SERVER/environ && echo "$FOUND"`,
		"the threads":            `for i in 1 2 3; do for t in /proc/$SERVER/task/*; do grep -q PATH= $t/environ && echo "$FOUND"; done; done`,
		"the memory":             `for t in /proc/$SERVER/task/*; do head -c 0 $t/mem && grep -q stack $t/maps && echo "$FOUND"; done`,
		"the descriptors":        `for f in /proc/$SERVER/fd/*; do test -f $f && cat $f; done`,
		"the root of the server": `cat /proc/$SERVER/root$KEY`,
		"inherited descriptors":  `ls -l /proc/self/fd; for f in /proc/self/fd/*; do test -f $f && cat $f; done`,
	}
	if os.Geteuid() == 0 { // without a sandbox each of them succeeds
		for name, line := range attacks {
			if slices.Contains([]string{"a hard link", "a moved folder", "a changed mode", "a link that it makes"}, name) {
				continue // they change things
			}
			if out, _ := p.run(nil, line); !strings.Contains(out, secret) {
				t.Errorf("%s is no attack: %s", name, out)
			}
		}
	}
	for way, s := range p.ways() {
		for name, line := range attacks {
			if way == "user" && name == "a hard link there" {
				continue // the modes of the file hold, whatever its name
			}
			out, _ := p.run(s, line)
			if strings.Contains(out, secret) {
				t.Errorf("%s: %s was read:\n%s", way, name, out)
			}
		}
		for name, line := range map[string]string{
			"truncated": `: > "$KEY"; truncate -s 0 "$KEY"`, "replaced": `echo x > "$OWN/k"; mv "$OWN/k" "$KEY"`, "removed": `rm -rf "$DATA"`,
			"settings written": `echo 'policy: {}' > stepwell.yaml`,
		} {
			out, _ := p.run(s, line)
			if raw, err := os.ReadFile(p.key); err != nil || string(raw) != secret {
				t.Fatalf("%s: the key was %s: %q, %v\n%s", way, name, raw, err, out)
			}
			if _, err := os.Lstat(filepath.Join(p.work, "stepwell.yaml")); err == nil {
				t.Fatalf("%s: the settings were written", way)
			}
		}
		if out, _ := p.run(s, `kill -0 $SERVER && echo reached`); strings.Contains(out, "reached") {
			t.Errorf("%s: the server can be signalled", way)
		}
		p.must(os.Chmod(p.data, 0o700))
		p.must(os.Chmod(p.key, 0o600))
	}
}

// TestWork: what a command needs for its work, it has.
func TestWork(t *testing.T) {
	p := newPlace(t)
	p.must(os.Chmod(p.free, 0o777))
	for way, s := range p.ways() {
		p.must(os.RemoveAll(filepath.Join(p.free, "a")))
		for line, want := range map[string]string{
			`cat input.txt`:                     "input",
			`ls -a`:                             "input.txt",
			`echo 1 > "$OWN/x" && cat "$OWN/x"`: "1",
			`mkdir -p free/a/b && echo 2 > free/a/b/c && mv free/a/b/c free/a/d && ln free/a/d free/a/e && cat free/a/e`: "2",
			`echo hidden > /dev/null; echo 3 | cat`:                                            "3",
			`id -un > /dev/null; date > /dev/null; echo 4; head -c 1 /dev/urandom > /dev/null`: "4",
		} {
			if out, err := p.run(s, line); err != nil || !strings.Contains(out, want) {
				t.Errorf("%s: %s: %q, %v", way, line, out, err)
			}
		}
		if out, err := p.run(s, `grep -E '^(Cap(Eff|Bnd|Amb)|NoNewPrivs)' /proc/self/status`); err != nil || !strings.Contains(out, "NoNewPrivs:\t1") ||
			!strings.Contains(out, "CapEff:\t0000000000000000") {
			t.Errorf("%s: rights are left: %s, %v", way, out, err)
		}
	}
}

// TestFolders: without hidden files in it, a folder is the command's.
func TestFolders(t *testing.T) {
	p := newPlace(t)
	s, err := sandbox.New(sandbox.Options{Folders: []string{p.free}, Read: []string{p.work + "/input.txt"}, Hidden: []string{p.data}})
	if err != nil {
		t.Skipf("landlock: refused here: %v", err)
	}
	if out, err := p.run(s, `echo 1 > free/new && cat input.txt free/new`); err != nil || out != "input1\n" {
		t.Errorf("%q, %v", out, err)
	}
	for _, line := range []string{`echo 1 > input.txt`, `echo 1 > new`, `ls`, `cat /etc/shadow`, `ls /root`, `echo 1 > /tmp/stepwell-test-new`} {
		if out, err := p.run(s, line); err == nil {
			t.Errorf("%s: %s", line, out)
		}
	}
	p.must(s.Admits(p.free + "/."))
	p.must(s.Admits(p.work + "/input.txt"))
	for _, dir := range []string{p.work, p.data, "/"} {
		if err := s.Admits(dir); stepwell.CodeOf(err) != stepwell.CodeDenied || !strings.Contains(stepwell.HintOf(err), "exec.folders") {
			t.Errorf("%s: %v", dir, err)
		}
	}
	if err := s.Admits(p.data + "/sub"); err == nil || !strings.HasSuffix(err.Error(), "/sub, which belongs to the server") { // naming it in exec.folders would not help
		t.Errorf("a folder of the server: %v", err)
	}
	if got := s.Crowded(); len(got) != 0 {
		t.Errorf("crowded: %v", got)
	}
	if s, err = sandbox.New(sandbox.Options{Folders: []string{p.work}, Hidden: []string{p.data}}); err != nil || len(s.Crowded()) != 1 {
		t.Errorf("crowded: %v, %v", s, err)
	}
}

// TestCrowded: a folder that holds data of the server and very much else is refused, with the cure.
func TestCrowded(t *testing.T) {
	p := newPlace(t)
	for i := range 4100 {
		p.must(os.WriteFile(filepath.Join(p.work, fmt.Sprint(i)), nil, 0o600))
	}
	s, err := sandbox.New(sandbox.Options{Folders: []string{p.work}, Hidden: []string{p.data}})
	if err != nil {
		t.Skipf("landlock: refused here: %v", err)
	}
	err = s.Start(exec.Command("/bin/true"), p.own)
	if stepwell.CodeOf(err) != stepwell.CodeDenied || !strings.Contains(stepwell.HintOf(err), "--data") {
		t.Errorf("%v", err)
	}
}

// TestUsers: a user is only good for confining when it cannot open what is hidden.
func TestUsers(t *testing.T) {
	p := newPlace(t)
	for _, name := range []string{"no-such-user", "root"} {
		if _, err := sandbox.New(sandbox.Options{User: name}); stepwell.CodeOf(err) != stepwell.CodeDenied {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := user.Lookup("nobody"); err != nil || os.Geteuid() != 0 {
		t.Skip("user: refused here: the test does not run as root")
	}
	s, err := sandbox.New(sandbox.Options{User: "nobody", Hidden: []string{p.data, p.key}})
	p.must(err)
	p.must(s.Start(exec.Command("/bin/true"), p.own))
	p.must(os.Chmod(p.data, 0o755))
	if err := s.Start(exec.Command("/bin/true"), p.own); stepwell.CodeOf(err) != stepwell.CodeDenied || !strings.Contains(err.Error(), p.data) {
		t.Errorf("%v", err)
	}
}

// BenchmarkStart compares a command in a sandbox with one without.
func BenchmarkStart(b *testing.B) {
	s, err := sandbox.New(sandbox.Options{Folders: []string{b.TempDir()}})
	if err != nil {
		b.Skip(err)
	}
	own := b.TempDir()
	b.Run("plain", func(b *testing.B) {
		for b.Loop() {
			_ = exec.Command("/bin/true").Run()
		}
	})
	b.Run("landlock", func(b *testing.B) {
		for b.Loop() {
			cmd := exec.Command("/bin/true")
			if err := s.Start(cmd, own); err != nil {
				b.Fatal(err)
			}
			_ = cmd.Wait()
		}
	})
}

// TestRefused: without Landlock, and without root for another user, there is no sandbox; the error says what to do.
func TestRefused(t *testing.T) {
	if os.Getenv("STEPWELL_TEST_REFUSED") != "" {
		_, err := sandbox.New(sandbox.Options{})
		fmt.Println(stepwell.CodeOf(err), err, stepwell.HintOf(err))
		return
	}
	var out bytes.Buffer
	cmd := exec.Command(os.Args[0], "-test.run=^TestRefused$")
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), "STEPWELL_TEST_REFUSED=1"), &out, &out
	if err := sandboxtest.Start(cmd); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err, out.String())
	}
	t.Logf("neither: %s", out.String())
	for _, want := range []string{"denied", "this kernel has no Landlock", "exec.user"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not said: %s", want, out.String())
		}
	}
}
