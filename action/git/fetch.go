package git

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/builtin"
)

// fetchAndCheckOut resolves the ref once for all attempts, gets the commit into the cache, from there into the tree's own
// repository, and checks it out.
func (s *session) fetchAndCheckOut(ctx context.Context, w *watcher) (string, error) {
	refs, err := s.list(ctx)
	if err != nil {
		return "", err
	}
	commit, err := action.Once(ctx, s.call, "git.sha", func(context.Context) (string, error) { return s.resolve(refs) })
	if err != nil {
		return "", err
	}
	if !commitID().MatchString(commit) {
		return "", action.Fail(stepwell.Errorf(stepwell.CodeInternal, "", "the recorded commit %q is none", commit))
	}
	if err := s.fill(ctx, w, commit); err != nil {
		return "", err
	}
	return commit, s.populate(ctx, commit)
}

// list asks the server for the refs that the step may mean. It also proves that the credential opens the repository, whose
// commits may be in the cache.
func (s *session) list(ctx context.Context) (map[string]string, error) {
	patterns := []string{"HEAD"}
	if !commitID().MatchString(s.p.Ref) {
		for _, name := range names(s.p.Ref) {
			patterns = append(patterns, name, name+"^{}")
		}
	}
	refs := map[string]string{}
	line := func(text string) {
		if id, name, ok := strings.Cut(text, "\t"); ok && commitID().MatchString(id) && len(refs) < 1000 {
			refs[name] = id
		}
	}
	_, err := s.ask(ctx, repository, builtin.Tool{Line: line}, append([]string{"ls-remote", "--quiet", "--", s.repo.url}, patterns...)...)
	return refs, err
}

// resolve is the commit of the step's ref.
func (s *session) resolve(refs map[string]string) (string, error) {
	if commitID().MatchString(s.p.Ref) {
		return s.p.Ref, nil
	}
	for _, name := range names(s.p.Ref) {
		if id := refs[name+"^{}"]; id != "" { // what an annotated tag names
			return id, nil
		}
		if id := refs[name]; id != "" {
			return id, nil
		}
	}
	return "", action.Fail(stepwell.Errorf(stepwell.CodeNotFound, "give the name of a branch or a tag; HEAD is the default branch", "ref: the repository has no %s", s.p.Ref))
}

// partial reports whether the contents of files are left out of what is fetched, and are fetched for the folders that are
// checked out.
func (s *session) partial() bool { return len(s.p.Sparse) > 0 }

// cache is the bare repository of this machine for the address. What differs in depth does not share one: a fetch of less
// would cut the history of more.
func (s *session) cache() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%d\n%t", s.repo.url, s.p.Depth, s.partial()))
	return filepath.Join(s.h.o.Cache, fmt.Sprintf("%x.git", sum[:12]))
}

// fill makes sure that the tree's repository has the commit, by way of the cache.
func (s *session) fill(ctx context.Context, w *watcher, commit string) (err error) {
	if err := os.MkdirAll(s.h.o.Cache, 0o700); err != nil {
		return &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "the cache of repositories", Err: err}
	}
	if s.locked, err = lock(ctx, s.cache()+".lock"); err != nil {
		return &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "the cache of repositories", Err: err}
	}
	w.add(s.cache())
	w.add(s.tree)
	defer func() { s.unlock(); s.h.prune() }()
	for fresh := false; ; fresh = true {
		if err := s.update(ctx, commit); err != nil {
			return err
		}
		err := s.fetchInto(ctx, commit)
		if err == nil || fresh || ctx.Err() != nil {
			return err
		}
		// The cache is broken: begin anew.
		s.call.Log("the cached repository is fetched again: " + err.Error())
		if err := errors.Join(os.RemoveAll(s.cache()), os.RemoveAll(filepath.Join(s.tree, ".git"))); err != nil {
			return &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "the cache of repositories", Err: err}
		}
	}
}

// update fetches the commit into the cache unless it is there. The lock is held, so nobody else's git works in it, and
// lock files in it are of dead processes.
func (s *session) update(ctx context.Context, commit string) error {
	dir := s.cache()
	removeStale(dir)
	if err := s.must(ctx, nothing, builtin.Tool{}, "init", "--quiet", "--bare", "--template=", "--", dir); err != nil && ctx.Err() == nil {
		err = errors.Join(os.RemoveAll(dir), s.must(ctx, nothing, builtin.Tool{}, "init", "--quiet", "--bare", "--template=", "--", dir))
		if err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "config"), []byte(s.config(true)), 0o600); err != nil {
		return &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "the cache of repositories", Err: err}
	}
	now := time.Now()
	_ = os.Chtimes(dir+".lock", now, now) // when it was used; for prune
	ref := "refs/stepwell/" + commit
	a, err := s.git(ctx, nothing, builtin.Tool{}, "--git-dir="+dir, "cat-file", "-e", ref+"^{commit}")
	if err != nil || a.code == 0 {
		return err
	}
	args := s.fetching(s.p.Depth, "--git-dir="+dir)
	if a, err = s.ask(ctx, repository, builtin.Tool{}, append(args, "origin", "+"+commit+":"+ref)...); err == nil || a.code == 0 || !refusesID(a.stderr) {
		return err
	}
	return s.updateByRef(ctx, dir, commit)
}

// refusesID reports that a server gives no single commits, or has the commit no more.
func refusesID(stderr string) bool {
	for _, words := range []string{"unadvertised object", "not our ref", "remote ref", "bad object", "upload-pack: not our"} {
		if strings.Contains(stderr, words) {
			return true
		}
	}
	return false
}

// updateByRef fetches a ref whose history has the commit: as much as the step asks for, else all of it.
func (s *session) updateByRef(ctx context.Context, dir, commit string) error {
	gone := action.Fail(stepwell.Errorf(stepwell.CodeNotFound, "restart the step: it will take the commit that the ref has then", "the commit %s is not in the repository, or not in %s any more (force-pushed?)", commit, s.p.Ref))
	if commitID().MatchString(s.p.Ref) {
		return gone
	}
	for _, depth := range []int{s.p.Depth, 0} {
		for _, name := range names(s.p.Ref) {
			a, err := s.git(ctx, repository, builtin.Tool{}, append(s.fetching(depth, "--git-dir="+dir), "origin", "+"+name+":refs/stepwell/tip")...)
			switch {
			case err != nil:
				return err
			case a.code != 0 && refusesID(a.stderr):
				continue
			case a.code != 0:
				return s.diagnose("fetch", a.stderr)
			}
			if a, err = s.git(ctx, nothing, builtin.Tool{}, "--git-dir="+dir, "cat-file", "-e", commit+"^{commit}"); err != nil {
				return err
			}
			if a.code == 0 {
				return s.must(ctx, nothing, builtin.Tool{}, "--git-dir="+dir, "update-ref", "refs/stepwell/"+commit, commit)
			}
		}
	}
	return gone
}

// fetching are the arguments of a fetch.
func (s *session) fetching(depth int, where ...string) []string {
	if depth == 0 {
		depth = 1<<31 - 1 // git's word for all, also where less was fetched before
	}
	args := append(where, "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--force", "--depth="+strconv.Itoa(depth))
	if s.partial() {
		args = append(args, "--filter=blob:none")
	}
	return args
}

// config is the configuration of a repository of ours, written before each use: nothing that somebody has put there counts.
func (s *session) config(bare bool) string {
	quoted := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s.repo.url) + `"`
	var b strings.Builder
	version := 0
	if s.partial() {
		version = 1
	}
	fmt.Fprintf(&b, "[core]\n\trepositoryformatversion = %d\n\tbare = %t\n[remote \"origin\"]\n\turl = %s\n", version, bare, quoted)
	if !bare {
		b.WriteString("\tfetch = +refs/heads/*:refs/remotes/origin/*\n")
	}
	if s.partial() {
		b.WriteString("\tpromisor = true\n\tpartialclonefilter = blob:none\n[extensions]\n\tpartialClone = origin\n")
	}
	if bare {
		b.WriteString("[uploadpack]\n\tallowFilter = true\n\tallowAnySHA1InWant = true\n")
	}
	return b.String()
}

// removeStale removes what programs that were killed have left in the cache.
func removeStale(dir string) {
	_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // it has gone meanwhile
		}
		name := entry.Name()
		switch {
		case entry.IsDir() && (strings.HasPrefix(name, "tmp_objdir-") || strings.HasPrefix(name, "incoming-")):
			_ = os.RemoveAll(path)
			return filepath.SkipDir
		case !entry.IsDir() && (strings.HasSuffix(name, ".lock") || strings.HasPrefix(name, "tmp_") || strings.HasPrefix(name, ".tmp-")):
			_ = os.Remove(path)
		}
		return nil
	})
}
