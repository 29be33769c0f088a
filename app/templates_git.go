package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action/builtin"
	"github.com/stepwell/stepwell/action/git"
	"github.com/stepwell/stepwell/action/outbound"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/starter"
)

// TemplateRepo is a git repository with templates: the pipeline files of one of its folders.
type TemplateRepo struct {
	Repo    string  `json:"repo" required:"true"`
	Ref     string  `json:"ref"`             // Defaults to HEAD, the default branch
	Path    string  `json:"path"`            // Defaults to the root
	Refresh float64 `json:"refresh_seconds"` // how old what is known may be. Defaults to 600
}

// Limits of repositories of templates.
const (
	templatesTime  = 2 * time.Minute  // of one fetch
	templatesFirst = 10 * time.Second // how long a request waits for the first fetch
	templatesAgain = 30 * time.Second // the least time between two fetches
)

// templateRepos keeps the templates of repositories: what is older than its refresh is fetched again when somebody asks, beside the
// answer, which has what was there before.
type templateRepos struct {
	repos    []TemplateRepo
	options  git.Options
	client   *outbound.Client
	stopping <-chan struct{} // ends fetches
	now      func() time.Time

	mu   sync.Mutex
	kept []keptRepo // one for each of repos
}

// keptRepo is what is known of a repository.
type keptRepo struct {
	templates []api.Template
	err       error // of the last fetch; templates are those of the one before
	at        time.Time
	fetching  chan struct{} // closed at the end of a fetch; nil: none is under way
}

// templateRepos are those of the options; nil for none.
func (s *Server) templateRepos() *templateRepos {
	if len(s.o.TemplateRepos) == 0 {
		return nil
	}
	return &templateRepos{repos: s.o.TemplateRepos, options: s.o.gitOptions(builtin.Options{}), client: s.client, stopping: s.closing, now: time.Now}
}

// all gives the templates of all repositories, and what is wrong with them.
func (t *templateRepos) all(ctx context.Context) (found []api.Template, problems []api.TemplateProblem) {
	if t == nil {
		return nil, nil
	}
	wait, enough := context.WithTimeout(ctx, templatesFirst)
	defer enough()
	for i := range t.repos {
		k := t.get(wait, i)
		found = append(found, k.templates...)
		switch {
		case k.err != nil:
			problems = append(problems, api.TemplateProblem{Source: t.repos[i].Repo, Message: problemText(k.err)})
		case k.at.IsZero():
			problems = append(problems, api.TemplateProblem{Source: t.repos[i].Repo, Message: "it is being fetched; ask again in a moment"})
		}
	}
	return found, problems
}

// get is what is known of a repository; of one that has not been fetched yet when that is over, or ctx.
func (t *templateRepos) get(ctx context.Context, i int) keptRepo {
	t.mu.Lock()
	if t.kept == nil {
		t.kept = make([]keptRepo, len(t.repos))
	}
	k := &t.kept[i]
	age := time.Duration(t.repos[i].Refresh * float64(time.Second))
	if age <= 0 {
		age = 10 * time.Minute
	}
	if k.err != nil {
		age = min(age, time.Minute)
	}
	if k.fetching == nil && (k.at.IsZero() || t.now().Sub(k.at) >= max(age, templatesAgain)) {
		k.fetching = make(chan struct{})
		go t.fetch(i, k.fetching)
	}
	first := k.fetching
	if !k.at.IsZero() {
		first = nil
	}
	out := *k
	t.mu.Unlock()
	if first == nil {
		return out
	}
	select {
	case <-first:
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.kept[i]
}

// fetch reads a repository.
func (t *templateRepos) fetch(i int, done chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), templatesTime)
	defer cancel()
	go func() {
		select {
		case <-t.stopping:
			cancel()
		case <-ctx.Done():
		}
	}()
	templates, err := t.read(ctx, &t.repos[i])
	t.mu.Lock()
	defer t.mu.Unlock()
	k := &t.kept[i]
	if k.at, k.err, k.fetching = t.now(), err, nil; templates != nil {
		k.templates = templates
	}
	close(done)
}

func (t *templateRepos) read(ctx context.Context, r *TemplateRepo) ([]api.Template, error) {
	pick := func(name string) bool {
		_, is := templateName(namedEntry{name: name})
		return is
	}
	files, commit, err := git.ReadFiles(ctx, t.client, t.options, git.Wanted{Repo: r.Repo, Ref: r.Ref, Path: r.Path, Pick: pick, Most: maxTemplates, Size: maxTemplateSize})
	if err != nil {
		return nil, err
	}
	out := make([]api.Template, 0, len(files))
	var problems []error
	for _, f := range files {
		if f.Err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", f.Name, f.Err))
			continue
		}
		out = append(out, api.Template{Name: strings.TrimSuffix(f.Name, filepath.Ext(f.Name)), Summary: starter.Summary(f.Text), Origin: "git",
			Source: fmt.Sprintf("%s %s", r.Repo, commit[:min(len(commit), 12)]), Text: f.Text})
	}
	return out, errors.Join(problems...)
}

// namedEntry is a name as an entry of a folder.
type namedEntry struct {
	fs.DirEntry
	name string
}

func (e namedEntry) Name() string { return e.name }

// problemText is an error as it is shown beside the templates.
func problemText(err error) string {
	text := stepwell.Clip(err.Error(), 500)
	if e, ok := errors.AsType[*stepwell.Error](err); ok && e.Hint != "" {
		text += " (" + e.Hint + ")"
	}
	return text
}
