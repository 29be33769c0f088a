// Package git has the action that checks out a commit of a git repository and runs a command in it: external.git.run
// (specification: budpipeline §3.3).
//
// The git program of the machine does the work, locked down: it reads no configuration of the machine or the user, runs
// no hook, filter or helper, speaks only the configured protocols, follows no redirect, and reaches HTTP servers only
// through a proxy of this process that applies the rules of util.http (package outbound). Credentials reach it by its
// environment or a file of the step. The command runs as that of util.exec does (package builtin). What the action reads
// and returns is stated in its Spec. Names, parameters and outputs are stable.
package git

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/builtin"
	"github.com/stepwell/stepwell/action/outbound"
	"github.com/stepwell/stepwell/spec"
)

// Name is the action's name.
const Name = "external.git.run"

// Options configure the action.
type Options struct {
	// Protocols that repositories may be reached by: https, http, ssh, file. Defaults to https.
	Protocols []string
	// CAFile is a PEM file with the authorities of https servers. Defaults to those of the system.
	CAFile string
	// KnownHosts is the file with the keys of ssh servers. Defaults to none: no ssh server is trusted.
	KnownHosts string
	// MaxBytes bounds what one step may fetch and check out. Defaults to 2 GiB.
	MaxBytes int64
	// CacheBytes bounds the cache of repositories. Defaults to 10 GiB.
	CacheBytes int64
	// Cache is the folder of the cache, which is made when it is needed. Defaults to one in the user's cache directory.
	Cache string
	// Pause is the wait before a server is asked again, times the number of tries so far. Defaults to 1 s.
	Pause time.Duration
	// Commands are how commands are run and confined.
	Commands builtin.Options
}

// Register adds the action, which reaches servers as the client may. The caller closes the client.
func Register(r *action.Registry, c *outbound.Client, o Options) error {
	if err := o.complete(); err != nil {
		return err
	}
	return r.Add(action.Action{Spec: describe(), Handler: &handler{o: o, client: c}})
}

// complete checks the options and fills in defaults.
func (o *Options) complete() error {
	if len(o.Protocols) == 0 {
		o.Protocols = []string{"https"}
	}
	for _, name := range o.Protocols {
		if !slices.Contains(protocols, name) {
			return stepwell.Invalid("known are https, http, ssh and file", "git.protocols: %q is not a protocol", name)
		}
	}
	o.Pause = cmp.Or(o.Pause, time.Second)
	o.MaxBytes, o.CacheBytes = cmp.Or(o.MaxBytes, 2<<30), cmp.Or(o.CacheBytes, 10<<30)
	if o.Cache == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			dir = os.TempDir()
		}
		o.Cache = filepath.Join(dir, "stepwell", "git")
	}
	return nil
}

var protocols = []string{"https", "http", "ssh", "file"}

// params are the parameters of external.git.run.
type params struct {
	Repo       string      `json:"repo" required:"true" minLength:"1" maxLength:"2000" doc:"The repository, such as https://example.org/team/tools.git; ´git@host:path´ is ssh. Credentials go into ´credential´."`
	Ref        string      `json:"ref" default:"main" minLength:"1" maxLength:"500" doc:"A branch, a tag, HEAD (the default branch), a whole name such as refs/heads/x, or a whole commit id."`
	Path       string      `json:"path" doc:"Folder of the repository in which the command runs; its root by default."`
	Sparse     []string    `json:"sparse" maxItems:"100" minLength:"1" doc:"Check out these folders only, and the files of the folders above them. What is left out is not fetched, where the server can leave it out."`
	Depth      int         `json:"depth" default:"1" minimum:"0" maximum:"1000000" doc:"How many commits of the history are fetched; 0 is all."`
	Submodules bool        `json:"submodules" doc:"Whether to check out submodules too. They are reached as the repository is, but never as files of this machine."`
	Credential *credential `json:"credential" doc:"Credentials; none by default. An HTTP server gets it with every request to the repository's host, also for submodules."`
	Dir        string      `json:"dir" minLength:"1" doc:"Where the files go, relative to the pipeline's directory: a folder that does not exist, is empty, or was left by such a step, which is then removed. A temporary folder by default."`
	Keep       string      `json:"keep" default:"never" enum:"never,failed,always" doc:"When ´dir´ stays behind after the step."`
	Clone      float64     `json:"clone_seconds" default:"300" minimum:"1" maximum:"86400" doc:"Limit for fetching and checking out, within the step's timeout."`
	builtin.CommandFields
}

type credential struct {
	Username string `json:"username" default:"git" maxLength:"1000" doc:"Name that goes with the password."`
	Password string `json:"password" writeOnly:"true" minLength:"1" doc:"Password or access token, best a secret, sent with HTTP's basic authentication."`
	Bearer   string `json:"bearer" writeOnly:"true" minLength:"1" doc:"A token that is sent as a bearer token instead."`
	SSHKey   string `json:"ssh_key" writeOnly:"true" minLength:"1" doc:"A private key for ssh, without a passphrase."`
}

func describe() spec.Spec {
	return spec.Spec{
		Name:        Name,
		Summary:     "Checks out a commit of a git repository and runs a command in it.",
		Doc:         doc,
		Timeout:     time.Hour,
		Params:      spec.FieldsOf[params](),
		OpenOutputs: true,
		Places:      []string{"dir"},
		Outputs: append([]spec.Field{
			{Name: "commit", Type: spec.String, Doc: "The commit that was checked out, the same for all attempts of the step."},
			{Name: "dir", Type: spec.String, Doc: "Where the files are, if they stay (`keep`)."},
		}, builtin.CommandOutputs()...),
		Examples: []spec.Example{
			{Title: "run a script of a repository", YAML: "id: report\naction: external.git.run\nparams:\n  repo: https://example.org/team/reports.git\n  command: [python3, monthly.py, \"{{ params.month }}\"]"},
			{Title: "one folder of a large private repository, at a tag", YAML: "id: deploy\naction: external.git.run\nparams:\n  repo: https://example.org/team/mono.git\n  ref: v1.4.2\n" +
				"  sparse: [deploy/eu]\n  path: deploy/eu\n  credential: {password: \"{{ secrets.git_token }}\"}\n  command: ./apply.sh"},
		},
	}
}

const doc = "**Which commit.** The first attempt asks the server where `ref` is and records the commit; every later attempt of the step, also after a crash, " +
	"uses that commit, wherever the branch has gone meanwhile. A restart of the step asks again. Each attempt asks the server whether the credential still opens the repository.\n\n" +
	"**Command.** It is run as that of `util.exec`: environment, `STEPWELL_OUTPUT`, log, end, exit codes and confinement are described there. `STEPWELL_COMMIT` is the commit. " +
	"The working directory is `path`, which must not lead out of the repository by a link. The folder's `.git` is the step's own, with `depth` commits and without credentials. " +
	"The command is the pipeline's; what it runs of the repository has the command's rights.\n\n" +
	"**git.** The program `git` (2.32 or later) must be installed where the step runs. Configuration of the machine and the user, hooks, filters (so Git LFS: its files are the pointers), credential helpers and redirects are off, " +
	"and every object is checked. Only https is allowed unless the setting `git.protocols` says more; addresses are allowed as for `util.http`. Repositories are kept in a cache of the machine, of which a step sees only what its credential opens.\n\n" +
	"| what happens | the step |\n|---|---|\n" +
	"| no connection, a server's error | three tries within `clone_seconds`, then another attempt by the retry policy |\n" +
	"| no access, no such repository or ref, an address, protocol or redirect that is not allowed | fails permanently |\n" +
	"| objects that git refuses; more than the setting `git.max_bytes` or a million files | fails permanently |\n" +
	"| the recorded commit is gone from the server and the cache (force-pushed) | fails permanently |"

type handler struct {
	o      Options
	client *outbound.Client
}

// Validate implements action.Validator.
func (h *handler) Validate(values map[string]any) []error {
	var p params
	if err := spec.BindTemplated(values, &p); err != nil {
		return []error{action.Fail(err)}
	}
	given := func(name string) bool { return values[name] != nil }
	return append(h.check(&p, given), builtin.CheckCommand(values)...)
}

// check finds what is wrong with parameters, of which those with templates are missing.
func (h *handler) check(p *params, given func(string) bool) (problems []error) {
	if p.Repo != "" {
		_, err := readRepo(p.Repo, h.o.Protocols)
		problems = appendError(problems, err)
	}
	if p.Ref != "" {
		problems = appendError(problems, checkRef(p.Ref))
	}
	problems = appendError(problems, checkPath("path", p.Path))
	for _, dir := range p.Sparse {
		problems = appendError(problems, checkPath("sparse", dir))
		if filepath.Clean(dir) == "." {
			problems = append(problems, action.Invalid("leave sparse out for all of the repository", "sparse: the root is not a folder of the repository"))
		}
	}
	if p.Keep != "" && p.Keep != keepNever && !given("dir") {
		problems = append(problems, action.Invalid("say where with dir", "keep: files stay only in a dir of their own"))
	}
	if c := p.Credential; c != nil && c.Password != "" && c.Bearer != "" {
		problems = append(problems, action.Invalid("leave one of them out", "credential: password stands beside bearer"))
	}
	return problems
}

func appendError(list []error, err error) []error {
	if err != nil {
		return append(list, err)
	}
	return list
}

const keepNever, keepAlways = "never", "always"

// Run implements action.Handler.
func (h *handler) Run(ctx context.Context, call *action.Call) (_ any, err error) {
	var p params
	if err := call.Bind(&p); err != nil {
		return nil, err
	}
	problems := append(h.check(&p, func(string) bool { return p.Dir != "" }), builtin.CheckCommand(call.Params)...)
	if len(problems) > 0 {
		return nil, action.Fail(errors.Join(problems...))
	}
	programs, err := builtin.OpenPrograms(ctx, call, h.o.Commands)
	if err != nil {
		return nil, err
	}
	defer programs.Close()
	tree, err := h.makeTree(ctx, call, &p, programs)
	if err != nil {
		return nil, err
	}
	done := false
	defer func() {
		if p.Dir != "" && (p.Keep == "" || p.Keep == keepNever || done && p.Keep != keepAlways) {
			err = errors.Join(err, os.RemoveAll(tree))
		}
	}()
	commit, err := h.checkOut(ctx, call, &p, programs, tree)
	if err != nil {
		return nil, err
	}
	if p.Dir == "" {
		if tree, err = handOver(programs, tree); err != nil {
			return nil, &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "the files for the command", Err: err}
		}
	}
	dir, err := within(tree, p.Path)
	if err != nil {
		return nil, err
	}
	env := []string{"STEPWELL_COMMIT=" + commit}
	if programs.Confined() {
		env = append(env, "GIT_CONFIG_NOSYSTEM=1") // which it may not read; git then ends
	}
	value, err := programs.Command(ctx, dir, env...)
	if err != nil {
		return nil, err
	}
	done = true
	return addOutputs(value, commit, tree, p.Keep == keepAlways), nil
}

// handOver moves files from where they were made, out of the reach of other commands, to the command's own folder.
func handOver(programs *builtin.Programs, tree string) (string, error) {
	own := filepath.Join(programs.Own(), "tree")
	return own, cmp.Or(programs.Give(tree), os.Rename(tree, own))
}

// addOutputs adds what this action knows to the command's outputs.
func addOutputs(value any, commit, tree string, kept bool) map[string]any {
	outputs := map[string]any{}
	switch v := value.(type) {
	case map[string]any:
		maps.Copy(outputs, v)
	case map[string]json.RawMessage:
		for name, raw := range v {
			outputs[name] = raw
		}
	}
	outputs["commit"] = commit
	if kept {
		outputs["dir"] = tree
	}
	return outputs
}

// makeTree makes the folder of the files.
func (h *handler) makeTree(ctx context.Context, call *action.Call, p *params, programs *builtin.Programs) (string, error) {
	private, err := programs.Private()
	if err != nil {
		return "", &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "temporary directory of git", Err: err}
	}
	tree := filepath.Join(private, "tree")
	if p.Dir != "" {
		if tree, err = claimDir(ctx, call, p.Dir, programs); err != nil {
			return "", err
		}
	}
	if err := os.Mkdir(tree, 0o700); err != nil {
		return "", &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "the folder of the files", Err: err}
	}
	return tree, nil
}

// claimDir makes sure that a folder may be made by the name of dir, by this step.
func claimDir(ctx context.Context, call *action.Call, dir string, programs *builtin.Programs) (string, error) {
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(call.Dir, dir)
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", action.Invalid("", "dir: %v", err)
	}
	if programs.OtherUser() {
		return "", action.Fail(stepwell.Errorf(stepwell.CodeDenied, "leave dir out: the files are in a temporary folder then", "dir: commands run as another user here, and work in folders of their own only"))
	}
	if err := cmp.Or(call.May(dir), programs.Admits(dir)); err != nil {
		return "", err
	}
	const key = "git.dir"
	_, mine, err := call.Host.Recall(ctx, key)
	if err != nil {
		return "", err
	}
	if err := clearDir(dir, mine); err != nil {
		return "", err
	}
	return dir, call.Host.Record(ctx, key, json.RawMessage("true"))
}

// marker is a file in .git of a folder that this action has made.
const marker = "stepwell"

// clearDir removes a folder that is empty, was left by such a step or is mine, and makes those above it.
func clearDir(dir string, mine bool) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return action.Invalid("", "dir: %v", err)
	}
	info, err := os.Lstat(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil || !info.IsDir() {
		return action.Invalid("name a folder that does not exist", "dir: %s is not a folder", dir)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return action.Invalid("", "dir: %v", err)
	}
	if info, err := os.Lstat(filepath.Join(dir, ".git", marker)); len(entries) > 0 && !mine && (err != nil || !info.Mode().IsRegular()) {
		return action.Fail(stepwell.Errorf(stepwell.CodeConflict, "name a folder that does not exist, or is empty", "dir: %s is not empty, and not of a step like this", dir))
	}
	if err := os.RemoveAll(dir); err != nil {
		return &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "the folder that an earlier attempt left", Err: err}
	}
	return nil
}

// within is a folder of the tree, which no link leads out of.
func within(tree, path string) (string, error) {
	root, err := filepath.EvalSymlinks(tree)
	if err != nil {
		return "", &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "the files", Err: err}
	}
	dir, err := filepath.EvalSymlinks(filepath.Join(root, path))
	if err != nil {
		return "", action.Invalid("name a folder of the repository; with sparse, one of those", "path: %s is not in the repository", path)
	}
	if rel, err := filepath.Rel(root, dir); err != nil || !filepath.IsLocal(rel) {
		return "", action.Fail(stepwell.Errorf(stepwell.CodeDenied, "", "path: a link of the repository leads from %s out of it", path))
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return "", action.Invalid("", "path: %s is not a folder", path)
	}
	return dir, nil
}
