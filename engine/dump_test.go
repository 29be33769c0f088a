package engine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/stepwell/stepwell/expr"
)

// dump writes everything that a run's decisions depend on, so that two runs with the same dump
// behave the same from here on.
func dump(r *Run) string {
	var b strings.Builder
	fmt.Fprintf(&b, "run %v cause %v failure %s outputs %s created %d armed %d/%d ended %d window %d next %d seq %d\n", r.status, r.cause,
		canonical(r.failure), r.outputs, r.began, r.armed, r.arming, r.ended, r.window, r.next, r.seq)
	fmt.Fprintf(&b, "inflight %d sleeping %d tolerated %v counts %+v collected %d params %s\n", r.inflight, r.sleeping, r.tolerated, r.counts, r.collected, value(r.params))
	fmt.Fprintf(&b, "load %v priority %d held %s cost %v %v breached %q\n", r.load, r.priority, canonical(r.held), r.cost, r.costs, r.breached)
	for _, x := range r.ready {
		fmt.Fprintf(&b, "ready %d %v p%d #%d\n", x.idx(), x.s.closed, x.priority, x.seq)
	}
	fmt.Fprintf(&b, "readySeq %d frontSeq %d work %d\n", r.readySeq, r.frontSeq, len(r.work))
	for _, d := range sorted(r.dependent) {
		fmt.Fprintf(&b, "dependent %d: %v\n", d, r.dependent[d])
	}
	fmt.Fprintf(&b, "continues %v\n", r.goesOn)
	fmt.Fprintf(&b, "where %v\n", sorted(r.where))
	for _, in := range sortedStrings(r.memory) {
		fmt.Fprintf(&b, "memory %s %s\n", in, canonical(r.memory[in]))
	}
	if r.main != nil {
		dumpScope(&b, r, r.main, "")
	}
	return b.String()
}

func dumpScope(b *strings.Builder, r *Run, s *scope, in string) {
	fmt.Fprintf(b, "%sscope %q iter %d item %s params %s base %d open %d running %d err %s stop %+v cut %v lost %v ended %v closed %v phase %d handlerErr %s keys %v\n", in,
		s.inner(), s.iter, value(s.item), value(s.given), s.base, s.open, s.running, canonical(s.err), s.stop, s.cut, s.lost, s.ended, s.closed, s.phase,
		canonical(s.handlerErr), sortedStrings(s.keys))
	for _, p := range s.parked {
		fmt.Fprintf(b, "%s parked %d\n", in, p.idx())
	}
	for _, name := range sortedStrings(s.groups) {
		g := s.groups[name]
		fmt.Fprintf(b, "%s group %s %d bytes over %v %d/%d declared %v flags %x waiters %v all %v spawners %v\n", in, name, g.bytes, g.over, g.open, g.instances, g.declared, g.flags,
			g.waiters, g.all, sorted(g.spawners))
	}
	for i := range s.nodes {
		n := &s.nodes[i]
		fmt.Fprintf(b, "%s %d %s %v queued %d waiting %d seq %d epoch %d attempt %d flags %x\n", in, s.idx(int32(i)), s.key(int32(i)), n.status, n.queued,
			n.waiting, n.seq, n.epoch, n.attempt, n.flags)
		if x := s.spawnedAt(int32(i)); x != nil {
			spec := x.spec
			spec.Params, _ = normal(spec.Params)
			fmt.Fprintf(b, "%s  spawned by %d %s\n", in, x.by, canonical(&spec))
		}
		if n.info != nil {
			dumpInfo(b, r, n.info, in+"   ")
		}
	}
	if s.handlers != nil {
		dumpScope(b, r, s.handlers, in+"  handlers ")
	}
}

func dumpInfo(b *strings.Builder, r *Run, in *info, at string) {
	fmt.Fprintf(b, "%sinfo output %s err %s last %s wait %s loaded %s state %s lost %v names %v spawned %v worker %q started %d wake %d until %d deferred %v advanced %v\n", at, compact(in.output), canonical(in.err),
		canonical(in.last), canonical(in.wait), in.loaded, in.state, in.lost, in.names, in.spawned, in.worker, in.started, in.wake, in.until, in.deferred, in.advanced)
	if in.part != nil {
		fmt.Fprintf(b, "%spart %s\n", at, in.part.Output)
	}
	if in.inside != nil {
		fmt.Fprintf(b, "%sinside %+v\n", at, *in.inside)
	}
	if e := in.each; e != nil {
		fmt.Fprintf(b, "%seach items %s n %d next %d again %v completed %d failed %d skipped %d cut %d unbegun %d redo %s first %d why %s bytes %d limit %d tolerate %d stopped %v kept %v ahead %d\n", at,
			value(e.items), e.n, e.next, e.again, e.completed, e.failed, e.skipped, e.cut, e.unbegun, redone(e.redo), e.first, canonical(e.why), e.bytes, e.limit, e.tolerate, e.stopped, sorted(e.kept), e.ahead)
		for i, res := range e.results {
			fmt.Fprintf(b, "%sresult %d %s\n", at, i, compact(res))
		}
		for _, s := range e.live() {
			dumpScope(b, r, s, at+" ")
		}
	}
	if in.body != nil {
		dumpScope(b, r, in.body, at+" ")
	}
}

func redone(list []redo) string {
	var b strings.Builder
	for _, it := range list {
		fmt.Fprintf(&b, " %d %v %+v %v", it.iter, it.status, it.inside, it.partly)
	}
	return b.String()
}

func value(v any) string {
	raw, err := expr.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

func compact(raw []byte) string {
	var out bytes.Buffer
	if json.Compact(&out, raw) != nil {
		return string(raw)
	}
	return out.String()
}

func sorted[V any](m map[int32]V) []int32 {
	keys := make([]int32, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func sortedStrings[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
