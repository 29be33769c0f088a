package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"go.yaml.in/yaml/v4"
	"golang.org/x/sync/errgroup"

	"github.com/stepwell/stepwell/action/kube/kubetest"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/api/client"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/redistest"
	"github.com/stepwell/stepwell/store/postgres/postgrestest"
)

var update = flag.Bool("update", false, "write the expected output into the scripts and golden files")

func TestMain(m *testing.M) {
	http.DefaultClient.Timeout = time.Minute // a server that does not answer fails its test, not the whole run
	testscript.Main(stopping{m}, map[string]func(){"stepwell": disturbed, "hands": hands, "plug": plug})
}

// stopping runs the tests and stops the control plane that they have used.
type stopping struct{ *testing.M }

func (m stopping) Run() int {
	defer kubetest.Stop()
	return m.M.Run()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestScripts runs every script in testdata/script: the command as people use it, in a process of its
// own. Beside the usual commands there are:
//
//	status N program args…   runs a program that must end with exit code N
//	await FILE               waits until the file is there
//	start NAME program …     starts a program in the background
//	interrupt NAME           sends it an interrupt; murder NAME kills it
//	finish NAME N            waits for its end with exit code N (-1: killed); its output is in NAME.out and NAME.err
//	jsonlines FILE           each line of the file is one JSON object, and the last one is the result
//	serving NAME             waits until the server NAME, a background program, says where it is, and sets STEPWELL_SERVER
//	await-approval           waits until the server has a question
//	capture VAR PATTERN      sets a variable to the first group of the pattern in the last output
//	damage HOW FOLDER        damages large outputs: the first is missing or truncated, or the first two are swapped
//	poll PATTERN program …   runs a program until its output matches
//	count PROJECT N          counts N items of a project at once, each by a worker of its own, through the server
//	redis HOW                kills the Redis server of the script, or begins it again, empty
//	redis-has PATTERN …      waits until a command to that server answers so, in the database of the state
//	await-line FILE TEXT     waits until a background program's output holds the text
func TestScripts(t *testing.T) { runScripts(t, "testdata/script", nil) }

// TestScriptsWithPostgres runs what needs a PostgreSQL server.
func TestScriptsWithPostgres(t *testing.T) {
	server := postgrestest.New(t)
	runScripts(t, "testdata/postgres", func(env *testscript.Env) error {
		url, err := postgrestest.Create(server.URL(), "") // of the script's own
		env.Setenv("POSTGRES", url)
		return err
	})
}

// TestScriptsWithRedis runs what needs a Redis server; each script has one of its own.
func TestScriptsWithRedis(t *testing.T) {
	redistest.New(t) // or skips
	runScripts(t, "testdata/redis", func(env *testscript.Env) error {
		server, err := redistest.Start()
		if err != nil {
			return err
		}
		env.Defer(server.Stop)
		env.Values["redis"] = server
		env.Setenv("REDIS", "redis://"+server.Address())
		return nil
	})
}

// TestScriptsWithKubernetes runs what needs a cluster: it has a node, a user that may do what docs/kubernetes.md says in the namespace
// $NAMESPACE, and one that may do nothing.
func TestScriptsWithKubernetes(t *testing.T) {
	cluster := kubetest.New(t)
	namespace := cluster.Namespace(t)
	cluster.Kubelet(t, namespace)
	token := cluster.Account(t, namespace, documentedRole(t)...)
	other := cluster.Account(t, namespace)
	runScripts(t, "testdata/kubernetes", func(env *testscript.Env) error {
		env.Setenv("NAMESPACE", namespace)
		return errors.Join(os.WriteFile(filepath.Join(env.WorkDir, "kubeconfig"), []byte(cluster.KubeconfigOf(cluster.URL, namespace, "token: "+token)), 0o600),
			os.WriteFile(filepath.Join(env.WorkDir, "powerless"), []byte(cluster.KubeconfigOf(cluster.URL, namespace, "token: "+other)), 0o600))
	})
}

// documentedRole has the rules of the Role in docs/kubernetes.md.
func documentedRole(t *testing.T) []kubetest.Object {
	t.Helper()
	text, err := os.ReadFile("../../docs/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(text), "apiVersion: rbac.authorization.k8s.io/v1\n")
	block, _, _ = strings.Cut(block, "```")
	var role struct {
		Rules []kubetest.Object `yaml:"rules"`
	}
	if err := yaml.Unmarshal([]byte(block), &role); err != nil || len(role.Rules) < 5 {
		t.Fatal("docs/kubernetes.md has no Role", err)
	}
	return role.Rules
}

// runScripts runs the scripts of a folder, with what more prepares for each.
func runScripts(t *testing.T, folder string, more func(*testscript.Env) error) {
	examples, err := filepath.Abs("../../examples")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:           folder,
		UpdateScripts: *update,
		Setup: func(env *testscript.Env) error {
			env.Setenv("EXAMPLES", examples)
			env.Setenv("TZ", "UTC")
			env.Setenv("FREE", freeAddress())
			env.Values["jobs"] = map[string]*exec.Cmd{}
			if more != nil {
				return more(env)
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"status": status, "await": await, "await-line": awaitLine, "start": start,
			"interrupt": signalling(os.Interrupt), "murder": signalling(os.Kill), "finish": finish, "jsonlines": jsonLines,
			"serving": awaitServer, "capture": capture, "await-approval": awaitApproval,
			"damage": damage, "poll": poll, "count": count, "redis": redis, "redis-has": redisHas,
		},
	})
}

func status(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N program args…")
	}
	err := ts.Exec(args[1], args[2:]...)
	if got := exitCode(err); strconv.Itoa(got) != args[0] {
		ts.Fatalf("exit code %d, want %s", got, args[0])
	}
}

func exitCode(err error) int {
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		return e.ExitCode()
	}
	if err != nil {
		return -2
	}
	return 0
}

// patience is how long a script waits for something that must come.
const patience = time.Minute

func until(ts *testscript.TestScript, what string, there func() bool) {
	deadline := time.After(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !there() {
		select {
		case <-deadline:
			ts.Fatalf("%s did not come", what)
		case <-tick.C:
		}
	}
}

func await(ts *testscript.TestScript, _ bool, args []string) {
	until(ts, args[0], func() bool {
		_, err := os.Stat(ts.MkAbs(args[0]))
		return err == nil
	})
}

func awaitLine(ts *testscript.TestScript, _ bool, args []string) {
	until(ts, args[1], func() bool {
		raw, err := os.ReadFile(ts.MkAbs(args[0]))
		return err == nil && bytes.Contains(raw, []byte(args[1]))
	})
}

var serverURL = regexp.MustCompile(`stepwell serves (http\S+)`)

// awaitServer waits for the banner of a server and, so that it is whole, for the server to be ready.
func awaitServer(ts *testscript.TestScript, _ bool, args []string) {
	awaitLine(ts, false, []string{args[0] + ".err", `"msg":"ready"`})
	found := serverURL.FindStringSubmatch(ts.ReadFile(args[0] + ".out"))
	if found == nil {
		ts.Fatalf("the server does not say where it is: %s", ts.ReadFile(args[0]+".out"))
	}
	ts.Setenv("STEPWELL_SERVER", found[1])
}

func awaitApproval(ts *testscript.TestScript, _ bool, _ []string) {
	c, err := client.New(client.Options{URL: ts.Getenv("STEPWELL_SERVER"), Token: ts.Getenv("STEPWELL_API_KEY")})
	ts.Check(err)
	until(ts, "a question", func() bool {
		rows, err := c.Pages(context.Background(), "/api/v1/approvals", "approvals", url.Values{}, 1)
		ts.Check(err)
		return len(rows) > 0
	})
}

func capture(ts *testscript.TestScript, _ bool, args []string) {
	found := regexp.MustCompile(args[1]).FindStringSubmatch(ts.ReadFile("stdout"))
	if len(found) < 2 {
		ts.Fatalf("%s is not in the output: %s", args[1], ts.ReadFile("stdout"))
	}
	ts.Setenv(args[0], found[1])
}

func damage(ts *testscript.TestScript, _ bool, args []string) {
	blobs, err := filepath.Glob(filepath.Join(ts.MkAbs(args[1]), "??", "*"))
	ts.Check(err)
	if len(blobs) < 2 {
		ts.Fatalf("there are %d large outputs in %s", len(blobs), args[1])
	}
	switch args[0] {
	case "missing":
		ts.Check(os.Remove(blobs[0]))
	case "truncated":
		ts.Check(os.Truncate(blobs[0], 50_000))
	case "swapped":
		ts.Check(os.Rename(blobs[0], blobs[0]+".aside"))
		ts.Check(os.Rename(blobs[1], blobs[0]))
		ts.Check(os.Rename(blobs[0]+".aside", blobs[1]))
	}
}

func poll(ts *testscript.TestScript, _ bool, args []string) {
	pattern := regexp.MustCompile(args[0])
	until(ts, args[0], func() bool {
		_ = ts.Exec(args[1], args[2:]...) // it is asked again
		return pattern.MatchString(ts.ReadFile("stdout"))
	})
}

func count(ts *testscript.TestScript, _ bool, args []string) {
	c, err := client.New(client.Options{URL: ts.Getenv("STEPWELL_SERVER")})
	ts.Check(err)
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	var workers errgroup.Group
	var finished atomic.Int64
	for range n {
		workers.Go(func() error {
			got, err := c.CountItems(context.Background(), args[0], api.ProcessedItems{})
			if err == nil && got.Finished {
				finished.Add(1)
			}
			return err
		})
	}
	ts.Check(workers.Wait())
	ts.Logf("%d workers have been told that they finished the project", finished.Load())
	if finished.Load() > 1 {
		ts.Fatalf("more than one")
	}
}

func redis(ts *testscript.TestScript, _ bool, args []string) {
	server := ts.Value("redis").(*redistest.Server)
	if args[0] == "kill" {
		ts.Check(server.Kill())
	} else {
		ts.Check(server.Begin())
	}
}

func redisHas(ts *testscript.TestScript, _ bool, args []string) {
	server, pattern := ts.Value("redis").(*redistest.Server), regexp.MustCompile(args[0])
	until(ts, args[0], func() bool {
		out, err := redistest.Do(server.Address(), append([]string{"1/" + args[1]}, args[2:]...)...)
		return err == nil && pattern.MatchString(strings.ReplaceAll(out, "\n", " "))
	})
}

func jobs(ts *testscript.TestScript) map[string]*exec.Cmd {
	return ts.Value("jobs").(map[string]*exec.Cmd)
}

func start(ts *testscript.TestScript, _ bool, args []string) {
	path, err := exec.LookPath(args[1])
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		if full := filepath.Join(dir, args[1]); err != nil && app.IsFile(full) {
			path, err = full, nil
		}
	}
	ts.Check(err)
	cmd := exec.Command(path, args[2:]...)
	cmd.Dir = ts.MkAbs(".")
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "WORK", "STEPWELL_DATA", "STEPWELL_DB", "STEPWELL_LISTEN", "STEPWELL_LOG_FORMAT", "STEPWELL_SECRETS_KEY", "STEPWELL_SECRETS_KEY_FILE",
		"STEPWELL_API_KEY", "STEPWELL_SERVER_WORKER_LEASE_SECONDS"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	for _, end := range []string{".out", ".err"} {
		f, err := os.Create(ts.MkAbs(args[0] + end))
		ts.Check(err)
		defer f.Close()
		if end == ".out" {
			cmd.Stdout = f
		} else {
			cmd.Stderr = f
		}
	}
	ts.Check(cmd.Start())
	jobs(ts)[args[0]] = cmd
	ts.Defer(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill() // left over by a script that failed
			_ = cmd.Wait()
		}
	})
}

func signalling(sig os.Signal) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, _ bool, args []string) {
		ts.Check(jobs(ts)[args[0]].Process.Signal(sig))
	}
}

func finish(ts *testscript.TestScript, _ bool, args []string) {
	cmd := jobs(ts)[args[0]]
	timer := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	if got := exitCode(cmd.Wait()); strconv.Itoa(got) != args[1] {
		for _, end := range []string{".out", ".err"} {
			ts.Logf("%s:\n%s", args[0]+end, ts.ReadFile(args[0]+end))
		}
		ts.Fatalf("exit code %d, want %s", got, args[1])
	}
}

func jsonLines(ts *testscript.TestScript, _ bool, args []string) {
	lines := strings.Split(strings.TrimSpace(ts.ReadFile(args[0])), "\n")
	var last map[string]any
	for i, line := range lines {
		last = nil
		if err := json.Unmarshal([]byte(line), &last); err != nil || last == nil {
			ts.Fatalf("line %d is no JSON object: %s", i+1, line)
		}
	}
	for _, key := range []string{"execution_id", "status", "outputs", "error", "progress", "duration_ms"} {
		if _, ok := last[key]; !ok {
			ts.Fatalf("the last line has no %s: %v", key, last)
		}
	}
	if last["type"] != "result" {
		ts.Fatalf("the last line is no result: %v", last)
	}
}
