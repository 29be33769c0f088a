package app

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell/action/git"
	"github.com/stepwell/stepwell/action/outbound"
)

// TestTemplatesOfRepositories: the files of a folder of a repository are templates; a change comes with the next refresh, a failure is
// told beside what was there before, and no link leads out.
func TestTemplatesOfRepositories(t *testing.T) {
	work, bare := t.TempDir(), filepath.Join(t.TempDir(), "templates.git")
	run := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = work
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(work, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	secret := filepath.Join(t.TempDir(), "secret.yaml")
	if err := os.WriteFile(secret, []byte("name: secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run("init", "-q", "-b", "main", ".")
	if err := os.Mkdir(filepath.Join(work, "flows"), 0o755); err != nil {
		t.Fatal(err)
	}
	write("flows/ours.yaml", "# Ours.\nname: ours\n")
	write("flows/notes.txt", "no template")
	write("other.yaml", "name: elsewhere\n")
	if err := os.Symlink(secret, filepath.Join(work, "flows", "link.yaml")); err != nil {
		t.Fatal(err)
	}
	run("add", "-A")
	run("commit", "-q", "-m", "one")
	run("clone", "-q", "--bare", ".", bare)

	client, err := outbound.New(outbound.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	now := time.Now()
	repos := &templateRepos{repos: []TemplateRepo{{Repo: "file://" + bare, Path: "flows", Refresh: 60}, {Repo: "file://" + bare + ".none"}},
		options: git.Options{Protocols: []string{"file"}, Cache: t.TempDir(), Pause: time.Millisecond}, client: client, stopping: make(chan struct{}), now: func() time.Time { return now }}
	list := func() (texts string, problems []string) {
		t.Helper()
		all, found, err := (&templates{nil, repos, func(string, ...any) {}}).Templates(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range all {
			if x.Origin == "git" {
				texts += x.Name + " " + x.Summary + "|" + x.Text
				if !strings.HasPrefix(x.Source, "file://"+bare+" ") {
					t.Errorf("the source is %s", x.Source)
				}
			}
		}
		for _, p := range found {
			problems = append(problems, p.Source+": "+p.Message)
		}
		return texts, problems
	}
	texts, problems := list()
	if texts != "ours Ours.|# Ours.\nname: ours\n" {
		t.Errorf("the templates are %q", texts)
	}
	if len(problems) != 2 || !strings.Contains(problems[0], "link.yaml") || !strings.Contains(problems[1], ".none: ") {
		t.Errorf("the problems are %q", problems)
	}
	until := func(want string) {
		t.Helper()
		for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
			if texts, _ := list(); strings.Contains(texts, want) {
				return
			} else if time.Now().After(end) {
				t.Fatalf("%q has no %q", texts, want)
			}
		}
	}
	write("flows/more.yml", "# More.\nname: more\n")
	run("rm", "-q", "flows/link.yaml")
	run("add", "-A")
	run("commit", "-q", "-m", "two")
	run("push", "-q", bare, "main")
	if texts, _ := list(); strings.Contains(texts, "more") {
		t.Error("it was fetched before its time")
	}
	now = now.Add(2 * time.Minute)
	until("more More.")
	if err := os.Rename(bare, bare+".moved"); err != nil {
		t.Fatal(err)
	}
	now = now.Add(2 * time.Minute)
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		texts, problems := list()
		if len(problems) == 2 && strings.Contains(texts, "ours") && strings.Contains(texts, "more") {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%q %q", texts, problems)
		}
	}
}
