package helm

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/spec"
)

type uninstaller struct{ *handler }

// Validate implements action.Validator.
func (uninstaller) Validate(values map[string]any) []error {
	var p uninstallParams
	if err := spec.BindTemplated(values, &p); err != nil {
		return []error{action.Fail(err)}
	}
	if err := p.check(); err != nil {
		return []error{err}
	}
	return nil
}

// found is the release that the first attempt has found: no other one is deleted by later attempts.
type found struct {
	First   int64     `json:"first"` // when it was first deployed; 0: there was none
	Machine string    `json:"machine"`
	Until   time.Time `json:"until"` // when its helm has certainly ended
}

const recordFound = "helm.found"

// Run implements action.Handler.
func (h uninstaller) Run(ctx context.Context, call *action.Call) (any, error) {
	var p uninstallParams
	if err := call.Bind(&p); err != nil {
		return nil, err
	}
	if err := p.check(); err != nil {
		return nil, err
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
	return s.uninstall(ctx, &p)
}

func (s *session) uninstall(ctx context.Context, p *uninstallParams) (any, error) {
	raw, again, err := s.call.Host.Recall(ctx, recordFound)
	if err != nil {
		return nil, err
	}
	var before found
	if again {
		if err := json.Unmarshal(raw, &before); err != nil {
			return nil, action.Fail(&stepwell.Error{Code: stepwell.CodeInternal, Message: "record of the release", Err: err})
		}
	}
	r, err := s.read(ctx)
	if err != nil {
		return nil, err
	}
	gone := r == nil || r.Status == "uninstalled" && p.KeepHistory
	switch {
	case again && (gone || r.First.UnixMilli() != before.First): // done by an earlier attempt; what is there now is another's
		return s.removed(nil, r, p, before.First != 0), nil
	case gone && !p.IgnoreMissing:
		return nil, action.Fail(stepwell.Errorf(stepwell.CodeNotFound, "leave ignore_missing out if there may be none", "there is no release %s in the namespace %s of the cluster %s", p.Release, s.namespace, s.cluster.ID()))
	case gone:
		return s.removed(nil, r, p, false), nil
	case r.pending() && !(again && r.Status == "uninstalling" && (before.Machine == machine() && s.programs.Alone() || time.Now().After(before.Until))):
		if err := s.unfinished(r, ""); err != nil {
			return nil, err
		}
	}
	if !again {
		raw, err := json.Marshal(found{First: r.First.UnixMilli(), Machine: machine(), Until: s.ends()})
		if err == nil {
			err = s.call.Host.Record(ctx, recordFound, raw)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := s.own(ctx, work{First: r.First.UnixMilli(), Keep: p.KeepHistory}); err != nil {
		return nil, err
	}
	return s.delete(ctx, r, p)
}

func (s *session) delete(ctx context.Context, r *release, p *uninstallParams) (any, error) {
	s.call.Log(fmt.Sprintf("uninstalling the release %s (revision %d, %s) of the namespace %s of the cluster %s", p.Release, r.Revision, r.Status, s.namespace, s.cluster.ID()))
	args := []string{"uninstall", p.Release, "--timeout", p.limit().String(), s.waitFlag(p.Wait)}
	if p.KeepHistory {
		args = append(args, "--keep-history")
	}
	a, err := s.helm(ctx, nil, args...)
	if err != nil {
		return nil, err
	}
	s.warn(a)
	if a.code != 0 {
		return nil, diagnose("helm", a.stderr)
	}
	left := r
	if left.Status = "uninstalled"; !p.KeepHistory {
		left = nil
	}
	return s.removed(r, left, p, true), nil
}

func (s *session) removed(_, left *release, p *uninstallParams, removed bool) map[string]any {
	if !p.KeepHistory {
		left = nil
	}
	out := s.outputs(left)
	out["removed"] = removed
	return out
}
