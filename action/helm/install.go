package helm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/builtin"
	"github.com/stepwell/stepwell/spec"
)

type installer struct{ *handler }

// Validate implements action.Validator.
func (installer) Validate(values map[string]any) []error {
	var p installParams
	if err := spec.BindTemplated(values, &p); err != nil {
		return []error{action.Fail(err)}
	}
	return p.check(func(name string) bool { return values[name] != nil })
}

// check finds what is wrong with parameters, of which those with templates are missing.
func (p *installParams) check(given func(string) bool) (problems []error) {
	add := func(err error) {
		if err != nil {
			problems = append(problems, err)
		}
	}
	add(p.target.check())
	if p.Chart != "" {
		_, err := readPlace(p.Chart, p.Repo, given("repo"))
		add(err)
	}
	if p.Version != "" {
		add(checkVersion(p.Version))
	}
	for _, path := range slices.Sorted(maps.Keys(p.Secrets)) {
		if _, err := splitPath(path); err != nil {
			add(err)
		}
	}
	return problems
}

// Run implements action.Handler.
func (h installer) Run(ctx context.Context, call *action.Call) (any, error) {
	var p installParams
	if err := call.Bind(&p); err != nil {
		return nil, err
	}
	if problems := p.check(func(string) bool { return p.Repo != "" }); len(problems) > 0 {
		return nil, action.Fail(errors.Join(problems...))
	}
	s, err := h.open(ctx, call, &p.target)
	if err != nil {
		return nil, err
	}
	defer s.close()
	done := h.turn(ctx, s.id())
	if done == nil {
		return nil, s.putOff("another step of this server works on the release " + p.Release)
	}
	defer done()
	s.hide(p.Secrets)
	i := &installation{session: s, p: &p, key: hash(call.IdempotencyKey())}
	out, err := i.run(ctx)
	if errors.Is(err, errBusy) {
		return nil, s.putOff("another helm works on the release " + p.Release)
	}
	return out, err
}

// installation is one attempt of external.helm.install.
type installation struct {
	*session
	p      *installParams
	key    string
	chart  chart
	files  []string // copies of values_files
	values []byte   // the other values, as JSON
	digest string
}

func (i *installation) run(ctx context.Context) (any, error) {
	if err := i.prepare(ctx); err != nil {
		return nil, err
	}
	if i.p.DryRun {
		return i.dryRun(ctx)
	}
	r, err := i.read(ctx)
	if err != nil {
		return nil, err
	}
	if r != nil && r.pending() {
		if err := i.recover(ctx, r); err != nil {
			return nil, err
		}
		if r, err = i.read(ctx); err != nil {
			return nil, err
		}
	}
	if r != nil && r.Status == "deployed" && r.of(i.key) && r.digest == i.digest {
		i.call.Log(fmt.Sprintf("revision %d of the release %s is what this step had installed before", r.Revision, i.p.Release))
		return i.result(r, false), nil
	}
	if err := i.fetch(ctx); err != nil {
		return nil, err
	}
	if _, err := i.render(ctx); err != nil {
		return nil, err
	}
	return i.apply(ctx, r)
}

// recordRollback is the step's record of the last revision that it has made by a rollback, which has none of its labels.
const recordRollback = "helm.rollback"

// rollback is a revision that repairs one of the step.
type rollback struct {
	Revision int       `json:"revision"`
	Machine  string    `json:"machine"`
	Until    time.Time `json:"until"`
}

// recover repairs a pending release, if it may; else the error puts the step off, or ends it.
func (i *installation) recover(ctx context.Context, r *release) error {
	owned := work{Key: i.key}
	raw, again, err := i.call.Host.Recall(ctx, recordRollback)
	if err != nil {
		return err
	}
	var before rollback
	if again {
		if err := json.Unmarshal(raw, &before); err != nil {
			return action.Fail(&stepwell.Error{Code: stepwell.CodeInternal, Message: "record of the rollback", Err: err})
		}
	}
	if r.Status == "pending-rollback" && before.Revision == r.Revision { // an attempt before this one was killed in its repair
		r.key, r.meant, r.owner, r.until = i.key, r.Revision, before.Machine, before.Until
		owned.Rollbacks = append(owned.Rollbacks, r.Revision)
	}
	if err := i.unfinished(r, i.key); err != nil {
		return err
	}
	owned.Rollbacks = append(owned.Rollbacks, r.Revision+1)
	if raw, err = json.Marshal(rollback{r.Revision + 1, machine(), i.ends()}); err != nil {
		return action.Fail(err)
	}
	if err := errors.Join(i.call.Host.Record(ctx, recordRollback, raw), i.own(ctx, owned)); err != nil {
		return err
	}
	return i.repair(ctx, r, true)
}

// prepare gathers what is to be installed, and its digest.
func (i *installation) prepare(ctx context.Context) (err error) {
	if i.chart, err = i.findChart(ctx); err != nil {
		return err
	}
	var sums []string
	if i.files, sums, err = i.copyValues(); err != nil {
		return err
	}
	if i.values, err = mergeSecrets(i.p.Values, i.p.Secrets); err != nil {
		return err
	}
	// The label reveals nothing: whoever may read it may read the values in the release too.
	i.digest = hash(append(sums, i.chart.sum, string(i.values))...)
	return nil
}

// apply has helm install or upgrade the release, of which r is the newest revision.
func (i *installation) apply(ctx context.Context, r *release) (any, error) {
	next := 1
	if r != nil {
		next = r.Revision + 1
	}
	i.call.Log(fmt.Sprintf("installing %s as revision %d of the release %s in the namespace %s of the cluster %s", i.chart.name, next, i.p.Release, i.namespace, i.cluster.ID()))
	args := append(i.arguments(), "--output", "json", "--labels", i.labels(i.key, i.digest, next))
	if i.p.Create {
		args = append(args, "--create-namespace")
	}
	if i.p.Rollback {
		args = append(args, map[bool]string{true: "--atomic", false: "--rollback-on-failure"}[i.legacy])
	}
	if err := i.own(ctx, work{Key: i.key}); err != nil {
		return nil, err
	}
	a, err := i.helm(ctx, i.values, args...)
	if err != nil {
		return nil, err
	}
	if a.code != 0 {
		if lostRace(a.stderr) {
			return nil, errBusy
		}
		return nil, diagnose("helm", a.stderr)
	}
	i.warn(a)
	made, err := readRendered(a.stdout)
	if err != nil {
		return nil, err
	}
	return i.result(made.release(), true), nil
}

// arguments are those of every run of helm that renders the chart.
func (i *installation) arguments() []string {
	args := []string{"upgrade", i.p.Release, i.chart.path, "--install", "--reset-values", "--timeout", i.p.limit().String(), i.waitFlag(i.p.Wait || i.p.Rollback)}
	if !i.cluster.Everywhere() {
		args = append(args, "--skip-crds") // they are for all namespaces, and not rendered
	}
	for _, file := range i.files {
		args = append(args, "--values", file)
	}
	return append(args, "--values", "-")
}

func (i *installation) result(r *release, changed bool) map[string]any {
	out := i.outputs(r)
	out["chart"], out["app_version"], out["notes"], out["changed"] = r.Chart+"-"+r.Version, r.AppVersion, strings.TrimSpace(i.without(r.Notes)), changed
	return out
}

// rendered is what helm's JSON says of what it has installed, or would install.
type rendered struct {
	Manifest string `json:"manifest"`
	Version  int    `json:"version"`
	Info     struct {
		Notes  string `json:"notes"`
		Status string `json:"status"`
	} `json:"info"`
	Hooks []struct {
		Manifest string `json:"manifest"`
	} `json:"hooks"`
	Chart struct {
		Metadata struct {
			Name       string `json:"name"`
			Version    string `json:"version"`
			AppVersion string `json:"appVersion"`
		} `json:"metadata"`
	} `json:"chart"`
}

// render has the cluster check what would be installed, and checks that a step may.
func (i *installation) render(ctx context.Context) (*rendered, error) {
	args := append(i.arguments(), "--dry-run=server", "--hide-secret", "--output", "json")
	if i.p.Create {
		args = append(args, "--create-namespace")
	}
	a, err := i.helm(ctx, i.values, args...)
	if err != nil {
		return nil, err
	}
	if a.code != 0 {
		err := diagnose("rendering the chart", a.stderr)
		if e, ok := errors.AsType[*stepwell.Error](err); ok && e.Code == stepwell.CodeFailed && !builtin.Signaled(a.code) { // nothing was changed, and nothing will be next time
			e.Code = stepwell.CodeInvalid
			return nil, action.Fail(e)
		}
		return nil, err
	}
	out, err := readRendered(a.stdout)
	if err != nil {
		return nil, err
	}
	texts := []string{out.Manifest}
	for _, hook := range out.Hooks {
		texts = append(texts, hook.Manifest)
	}
	return out, i.checkObjects(ctx, texts)
}

// readRendered reads helm's JSON, before which it may print a line for people.
func readRendered(text string) (*rendered, error) {
	var out rendered
	if at := strings.IndexByte(text, '{'); at < 0 || json.Unmarshal([]byte(text[at:]), &out) != nil {
		return nil, action.Invalid("", "the chart renders to more than %d MiB, or helm does not say to what", maxRendered>>20)
	}
	return &out, nil
}

func (r *rendered) release() *release {
	m, notes := r.Chart.Metadata, []rune(r.Info.Notes)
	return &release{Revision: r.Version, Status: r.Info.Status, Chart: m.Name, Version: m.Version, AppVersion: m.AppVersion, Notes: string(notes[:min(len(notes), maxNotes)])}
}

const maxNotes = 16 << 10 // characters

const maxManifest = 256 << 10

func (i *installation) dryRun(ctx context.Context) (any, error) {
	if err := i.fetch(ctx); err != nil {
		return nil, err
	}
	would, err := i.render(ctx)
	if err != nil {
		return nil, err
	}
	out := i.result(would.release(), false)
	manifest := i.without(would.Manifest) // before it is cut, so that no half of a secret remains
	out["manifest"] = strings.ToValidUTF8(manifest[:min(len(manifest), maxManifest)], "")
	return out, nil
}
