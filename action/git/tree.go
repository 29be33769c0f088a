package git

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/builtin"
)

// maxFiles bounds the files of a commit: a small repository can name very many.
const maxFiles = 1_000_000

// fetchInto makes the tree's own repository, of the commit in the cache. It shares nothing with the cache, so that no
// command changes what other steps get.
func (s *session) fetchInto(ctx context.Context, commit string) error {
	if err := s.must(ctx, nothing, builtin.Tool{}, "init", "--quiet", "--template=", "--", s.tree); err != nil {
		return err
	}
	own := filepath.Join(s.tree, ".git")
	for name, text := range map[string]string{"config": s.config(false), marker: ""} {
		if err := os.WriteFile(filepath.Join(own, name), []byte(text), 0o600); err != nil {
			return &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "the step's repository", Err: err}
		}
	}
	return s.must(ctx, cacheOnly, builtin.Tool{Dir: s.tree}, append(s.fetching(s.p.Depth), "--update-shallow", "origin", commit)...)
}

// populate checks out the commit, which the tree's repository has.
func (s *session) populate(ctx context.Context, commit string) error {
	if err := s.count(ctx, commit); err != nil {
		return err
	}
	to := nothing
	if s.partial() {
		to = repository // for the contents of files
		var dirs strings.Builder
		for _, dir := range s.p.Sparse {
			dirs.WriteString(path.Clean(filepath.ToSlash(dir)) + "\n")
		}
		if err := s.must(ctx, nothing, builtin.Tool{Dir: s.tree, Stdin: []byte(dirs.String())}, "sparse-checkout", "set", "--cone", "--stdin"); err != nil {
			return err
		}
	}
	if _, err := s.ask(ctx, to, builtin.Tool{Dir: s.tree}, "checkout", "--quiet", "--force", "--detach", commit); err != nil {
		return err
	}
	if !s.p.Submodules {
		return nil
	}
	_, err := s.ask(ctx, modules, builtin.Tool{Dir: s.tree}, "submodule", "--quiet", "update", "--init", "--recursive", "--force", "--depth=1")
	return err
}

// count refuses a commit with too many files before git reads all of them into memory.
func (s *session) count(ctx context.Context, commit string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	files := 0
	tooMany := &stepwell.Error{Code: stepwell.CodeLimit, Message: fmt.Sprintf("the commit has more than %d files", maxFiles)}
	line := func(string) {
		if files++; files == maxFiles+1 {
			cancel(tooMany)
		}
	}
	err := s.must(ctx, nothing, builtin.Tool{Dir: s.tree, Line: line}, "ls-tree", "-r", "--name-only", commit)
	if files > maxFiles {
		return action.Fail(tooMany)
	}
	return err
}
