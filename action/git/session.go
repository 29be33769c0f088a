package git

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/builtin"
)

// session runs git for one attempt, in a limited time.
type session struct {
	h        *handler
	call     *action.Call
	p        *params
	repo     *repo
	programs *builtin.Programs
	program  string // path of git
	private  string // what confined commands must not reach
	tree     string
	gate     *gate // nil: the repository is not reached by HTTP
	ssh      string
	locked   *os.File // the cache's lock, which programs inherit; nil: not taken
}

// Oldest is the oldest version of git that the action works with: the first that GIT_CONFIG_GLOBAL locks down.
const Oldest = "2.32"

// Version finds git and its version. CodeInvalid where there is none, or one that is too old.
func Version(ctx context.Context) (path, version string, err error) {
	needed := builtin.Required{Name: "git", Action: Name, Args: []string{"version"}, Env: []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C"}, Text: versionText(), Least: [2]int{2, 32}, Oldest: Oldest + " or later"}
	return needed.Version(ctx)
}

var versionText = action.Pattern(`^git version (([0-9]{1,4})\.([0-9]{1,4})[0-9A-Za-z.-]*)`)

// checkOut puts the step's commit into the tree and gives its id.
func (h *handler) checkOut(ctx context.Context, call *action.Call, p *params, programs *builtin.Programs, tree string) (commit string, err error) {
	limit := time.Duration(p.Clone * float64(time.Second))
	late := &stepwell.Error{Code: stepwell.CodeTimeout, Message: fmt.Sprintf("fetching and checking out took longer than %s", limit), Hint: "raise clone_seconds, or fetch less with depth and sparse"}
	ctx, stop := context.WithTimeoutCause(ctx, limit, late)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := &session{h: h, call: call, p: p, programs: programs, tree: tree}
	defer s.close()
	begin := time.Now()
	w := watch(ctx, cancel, h.o.MaxBytes)
	if err = s.open(ctx); err == nil {
		commit, err = s.fetchAndCheckOut(ctx, w)
	}
	if grown := w.end(); grown != nil && err == nil {
		err = grown
	}
	if err != nil && ctx.Err() != nil {
		return "", stopped(ctx)
	}
	if err == nil {
		call.Log(fmt.Sprintf("%s is commit %s, checked out in %.1f s", p.Ref, commit, time.Since(begin).Seconds()))
	}
	return commit, err
}

// stopped says why the work was ended. The limit of bytes holds the next time too.
func stopped(ctx context.Context) error {
	cause := context.Cause(ctx)
	if limit, ok := errors.AsType[*stepwell.Error](cause); ok && limit.Code == stepwell.CodeLimit {
		return action.Fail(limit)
	} else if ok {
		return limit
	}
	code := stepwell.CodeCancelled
	if errors.Is(cause, context.DeadlineExceeded) {
		code = stepwell.CodeTimeout
	}
	return &stepwell.Error{Code: code, Message: "fetching and checking out was stopped", Err: cause}
}

func (s *session) open(ctx context.Context) (err error) {
	if s.repo, err = readRepo(s.p.Repo, s.h.o.Protocols); err != nil {
		return err
	}
	if s.program, _, err = Version(ctx); err != nil {
		if stepwell.CodeOf(err) == stepwell.CodeInvalid {
			return action.Fail(err)
		}
		return err
	}
	if s.private, err = s.programs.Private(); err != nil {
		return &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "temporary directory of git", Err: err}
	}
	switch s.repo.protocol {
	case "file":
		return s.call.May(s.repo.path)
	case "ssh":
		s.ssh, err = s.sshCommand(ctx)
		return err
	}
	s.gate, err = openGate(ctx, s.h.client)
	return err
}

func (s *session) close() {
	if s.gate != nil {
		s.gate.close()
	}
	s.unlock()
}

func (s *session) unlock() {
	if s.locked != nil {
		s.locked.Close()
		s.locked = nil
	}
}

// sshCommand is the ssh that git calls, by a line that git gives to a shell. It connects to the address that was checked.
func (s *session) sshCommand(ctx context.Context) (string, error) {
	port := s.repo.port
	alias := s.repo.host
	if port == 0 {
		port = 22
	} else if port != 22 {
		alias = fmt.Sprintf("[%s]:%d", alias, port)
	}
	addr, err := s.h.client.Permitted(ctx, s.repo.host, port)
	if err != nil {
		return "", refusal(err)
	}
	known := s.h.o.KnownHosts
	if known == "" {
		known = os.DevNull
	}
	args := []string{"ssh", "-F", os.DevNull, "-o", "BatchMode=yes", "-o", "IdentitiesOnly=yes", "-o", "IdentityAgent=none", "-o", "StrictHostKeyChecking=yes", "-o", "ForwardAgent=no",
		"-o", "UserKnownHostsFile=" + known, "-o", "GlobalKnownHostsFile=" + os.DevNull, "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=15", "-o", "HostName=" + addr.String(), "-o", "HostKeyAlias=" + alias}
	if c := s.p.Credential; c != nil && c.SSHKey != "" {
		key := filepath.Join(s.private, "ssh_key")
		if err := os.WriteFile(key, []byte(strings.TrimSpace(c.SSHKey)+"\n"), 0o600); err != nil {
			return "", &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "the ssh key for git", Err: err}
		}
		args = append(args, "-i", key)
	}
	for i := range args {
		args[i] = "'" + strings.ReplaceAll(args[i], "'", `'\''`) + "'"
	}
	return strings.Join(args, " "), nil
}

// reach says what one run of git may reach.
type reach int

const (
	nothing    reach = iota
	cacheOnly        // the cache, under the repository's address
	repository       // the repository
	modules          // submodules: like the repository, but no files of this machine
)

// settings are the only configuration that git has beside that of the repository, which is written by this package.
func (s *session) settings(to reach) []string {
	list := []string{"core.hooksPath=" + os.DevNull, "core.fsmonitor=false", "core.protectHFS=true", "core.protectNTFS=true", "submodule.recurse=false", "fetch.recurseSubmodules=false",
		"gc.auto=0", "maintenance.auto=false", "credential.helper=", "advice.detachedHead=false", "init.defaultBranch=main", "http.followRedirects=false"}
	switch to {
	case cacheOnly:
		return append(list, "url."+fileURL(s.cache())+".insteadOf="+s.repo.url)
	case nothing:
		return list
	}
	list = append(list, "transfer.fsckObjects=true", "protocol.version=2", "http.lowSpeedLimit=1000", "http.lowSpeedTime=30")
	if s.gate != nil {
		list = append(list, "http.proxy="+s.gate.url, "http.proxyAuthMethod=basic")
	}
	if s.h.o.CAFile != "" {
		list = append(list, "http.sslCAInfo="+s.h.o.CAFile)
	}
	if c := s.p.Credential; c != nil && s.repo.origin != "" {
		header := ""
		if c.Bearer != "" {
			header = "Bearer " + c.Bearer
		} else if c.Password != "" {
			header = "Basic " + base64.StdEncoding.EncodeToString([]byte(c.Username+":"+c.Password))
		}
		if header != "" {
			list = append(list, "http."+s.repo.origin+"/.extraHeader=Authorization: "+header)
		}
	}
	return list
}

// environment is the whole environment of git. Credentials are in it, and nowhere else.
func (s *session) environment(to reach) []string {
	allowed := map[reach]string{nothing: "none", cacheOnly: "file", repository: strings.Join(s.h.o.Protocols, ":")}[to]
	if to == modules {
		allowed = strings.Trim(strings.ReplaceAll(":"+strings.Join(s.h.o.Protocols, ":")+":", ":file:", ":"), ":")
	}
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.private, "XDG_CONFIG_HOME=" + s.private, "TMPDIR=" + s.private, "LC_ALL=C", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_SYSTEM=" + os.DevNull,
		"GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_ATTR_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=false", "SSH_ASKPASS=false", "GIT_PROTOCOL_FROM_USER=0", "GIT_NO_REPLACE_OBJECTS=1",
		"GIT_ALLOW_PROTOCOL=" + allowed, "GIT_SSH_VARIANT=ssh", "GIT_SSH_COMMAND=" + s.ssh}
	if s.ssh == "" || to == nothing || to == cacheOnly {
		env[len(env)-1] = "GIT_SSH_COMMAND=false"
	}
	list := s.settings(to)
	env = append(env, "GIT_CONFIG_COUNT="+strconv.Itoa(len(list)))
	for i, entry := range list {
		name, value := cutSetting(entry)
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, name), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, value))
	}
	return env
}

// cutSetting cuts name=value; only in the name of a setting about a URL can be more = signs.
func cutSetting(entry string) (name, value string) {
	for _, suffix := range []string{".insteadOf=", ".extraHeader="} {
		if before, after, found := strings.Cut(entry, suffix); found {
			return before + strings.TrimSuffix(suffix, "="), after
		}
	}
	name, value, _ = strings.Cut(entry, "=")
	return name, value
}

// answer is how a run of git ended.
type answer struct {
	code           int
	stdout, stderr string
}

// git runs git, which inherits the cache's lock. The error is that of a run that did not take place, or was stopped.
func (s *session) git(ctx context.Context, to reach, t builtin.Tool, args ...string) (answer, error) {
	t.Argv, t.Env = append([]string{s.program}, args...), s.environment(to)
	if t.Dir == "" {
		t.Dir = s.private
	}
	if s.locked != nil {
		t.Files = []*os.File{s.locked}
	}
	var a answer
	var err error
	a.code, a.stdout, a.stderr, err = s.programs.Tool(ctx, t)
	return a, err
}

// must runs git without the network; failure is that of a broken repository.
func (s *session) must(ctx context.Context, to reach, t builtin.Tool, args ...string) error {
	a, err := s.git(ctx, to, t, args...)
	if err != nil || a.code == 0 {
		return err
	}
	return &stepwell.Error{Code: stepwell.CodeFailed, Message: "git " + verb(args) + ": " + lastOf(a.stderr)}
}

// tries is how often a server is asked before the attempt fails.
const tries = 3

// ask runs git against a server, again where that may help.
func (s *session) ask(ctx context.Context, to reach, t builtin.Tool, args ...string) (a answer, err error) {
	for try := 1; ; try++ {
		if a, err = s.git(ctx, to, t, args...); err != nil || a.code == 0 {
			return a, err
		}
		if err = s.diagnose(verb(args), a.stderr); action.IsFail(err) || try == tries || refusesID(a.stderr) {
			return a, err
		}
		s.call.Host.Log(slog.LevelWarn, "retrying: "+err.Error())
		if err := action.Pause(ctx, time.Duration(try)*s.h.o.Pause); err != nil {
			return a, err
		}
	}
}

func verb(args []string) string {
	for _, arg := range args {
		if !strings.HasPrefix(arg, "-") {
			return arg
		}
	}
	return ""
}

// lastOf are the last lines of git's messages.
func lastOf(stderr string) string {
	lines := strings.Split(strings.TrimSpace(stderr), "\n")
	return strings.Join(lines[max(0, len(lines)-5):], "\n")
}
