package conductor_test

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/secret"
)

// guarded gives a conductor a guard of secrets, with master keys of these bytes.
func guarded(t *testing.T, g **secret.Guard, keys ...byte) func(*conductor.Options) {
	return func(o *conductor.Options) {
		var raw [][]byte
		for _, k := range keys {
			raw = append(raw, bytes.Repeat([]byte{k}, 32))
		}
		ring, err := secret.NewKeyring(raw...)
		if err != nil {
			t.Fatal(err)
		}
		*g = secret.NewGuard(o.Store.(*faulty).Store, ring, secret.NewRedactor())
		if err := (*g).Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		o.Secrets = *g
	}
}

// nowhere looks for texts in a database and the files next to it.
func nowhere(t *testing.T, db string, texts ...string) {
	t.Helper()
	files, err := filepath.Glob(db + "*")
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range texts {
			if bytes.Contains(raw, []byte(text)) {
				t.Errorf("%s holds %q", filepath.Base(file), text)
			}
		}
	}
}

const secretKeyed = `
name: gated
parameters: [{name: k, type: string, secret: true}, {name: open, type: string, default: o}]
settings: {concurrency: {key: "KEY"}}
steps:
  - {id: a, action: t.gate}
`

// Executions share a concurrency key that is made of a secret, and nobody sees it.
func TestConcurrencyKeyOfASecret(t *testing.T) {
	db := filepath.Join(t.TempDir(), "c.db")
	var guard *secret.Guard
	g := newGate()
	r := newRig(t, build{db: db, actions: actions(g), set: guarded(t, &guard, 1)})
	p := r.register(pipeline(t, strings.ReplaceAll(secretKeyed, "KEY", "{{ params.k | upper }}/{{ params.open }}")))
	mine := func(k string) map[string]any { return map[string]any{"k": k} }
	first, second, other := r.start(p, 0, mine("hunter-2-a")), r.start(p, 0, mine("hunter-2-a")), r.start(p, 0, mine("hunter-2-b"))
	r.status(first, stepwell.ExecutionRunning)
	r.status(second, stepwell.ExecutionPending)
	r.status(other, stepwell.ExecutionRunning)
	x, err := r.store.Execution(t.Context(), first)
	if err != nil || !strings.HasPrefix(x.Concurrency, "***") || len(x.Concurrency) != 3+64 {
		t.Errorf("the key is %q, %v", x.Concurrency, err)
	}
	open := r.start(r.register(pipeline(t, strings.ReplaceAll(secretKeyed, "KEY", "of {{ params.open }}"))), 0, mine("hunter-2-c"))
	if x, err = r.store.Execution(t.Context(), open); err != nil || x.Concurrency != "of o" {
		t.Errorf("a key without a secret is %q, %v", x.Concurrency, err)
	}
	number := r.register(pipeline(t, strings.ReplaceAll(secretKeyed, "KEY", "{{ params.k | fromjson }}")))
	_, err = r.Start(t.Context(), conductor.Request{Pipeline: number, Params: mine("hunter-2-d")})
	if stepwell.CodeOf(err) != stepwell.CodeInvalid || strings.Contains(err.Error(), "hunter-2") {
		t.Errorf("a key that cannot be made: %v", err)
	}
	r.stop()
	nowhere(t, db, "hunter-2", "HUNTER-2")
}

// The stored hash of a request cannot be found by trying, and is the same after a rotation of the master key.
func TestHashesOfRequestsAreNoneToTry(t *testing.T) {
	db := filepath.Join(t.TempDir(), "h.db")
	var guard *secret.Guard
	r := newRig(t, build{db: db, set: guarded(t, &guard, 1)})
	id, fresh, err := r.StartOnce(t.Context(), keyed(r.register(pipeline(t, one("t.echo"))), "k", "hash-of-it"))
	if err != nil || !fresh {
		t.Fatal(fresh, err)
	}
	kept, err := r.StartKey(t.Context(), "k")
	if err != nil || len(kept.Hash) != 32 || strings.Contains(hex.EncodeToString(kept.Hash), hex.EncodeToString([]byte("hash-of-it"))) {
		t.Errorf("kept is %x, %v", kept.Hash, err)
	}
	r.end(id, stepwell.ExecutionCompleted)
	r.stop()
	r = newRig(t, build{db: db, set: guarded(t, &guard, 2, 1)})
	p := r.register(pipeline(t, one("t.echo")))
	if again, fresh, err := r.StartOnce(t.Context(), keyed(p, "k", "hash-of-it")); err != nil || fresh || again != id {
		t.Errorf("with another master key: %s, fresh %v, %v", again, fresh, err)
	}
	if _, _, err := r.StartOnce(t.Context(), keyed(p, "k", "hash-of-something")); stepwell.CodeOf(err) != stepwell.CodeConflict {
		t.Errorf("another request: %v", err)
	}
	r.stop()
	r = newRig(t, build{db: db, set: guarded(t, &guard, 2)}) // the old key has gone
	if again, _, err := r.StartOnce(t.Context(), keyed(r.register(pipeline(t, one("t.echo"))), "k", "hash-of-it")); err != nil || again != id {
		t.Errorf("without the former master key: %s, %v", again, err)
	}
	r.stop()
	nowhere(t, db, "hash-of-it")
}

// Signals are sealed before they are stored, with the waiting steps' secrets; shown texts are hidden.
func TestSignalsHoldNoSecrets(t *testing.T) {
	db := filepath.Join(t.TempDir(), "s.db")
	var guard *secret.Guard
	w := &waits{}
	r := newRig(t, build{db: db, observe: w.observe, set: guarded(t, &guard, 1)})
	if _, err := guard.Vault.Set(t.Context(), "api", `vaulted"one`, 0, "x"); err != nil {
		t.Fatal(err)
	}
	p := r.register(pipeline(t, "name: waits\nparameters: [{name: k, type: string, secret: true}]\nsteps:\n  - {id: a, action: t.await, params: {n: \"1\"}}\n"))
	begin := func(k string) string {
		id := r.start(p, 0, map[string]any{"k": k})
		<-w.of(id)
		return id
	}
	r.signal("key-1", "0", `{"outputs":{"v":"early vaulted\"one"}}`, true, false) // kept, for the first
	early := r.start(p, 0, map[string]any{"k": "given-zero"})
	r.end(early, stepwell.ExecutionCompleted)
	checkOutput(t, r, guard, early, `{"v":"early vaulted\"one"}`)

	one, two := begin("given-one"), begin("given-two")
	r.signal("key-1", "1", `{"outputs":{"v":"vaulted\"one, given-one and given-two"},"by":"given-one"}`, true, true)
	for _, id := range []string{one, two} {
		r.end(id, stepwell.ExecutionCompleted)
		checkOutput(t, r, guard, id, `{"v":"vaulted\"one, given-one and given-two"}`)
	}
	three := begin("given-three")
	r.signal("key-1", "2", `{"status":"failed","error":"no: vaulted\"one, given-three"}`, true, true)
	if x := r.end(three, stepwell.ExecutionFailed); !strings.Contains(r.steps(x.No)["a"].Error.Message, "no: ***, ***") {
		t.Errorf("the step failed with %+v", r.steps(x.No)["a"].Error)
	}
	four := begin("given-four")
	if err := r.Cancel(t.Context(), four, "given-four is no more"); err != nil {
		t.Fatal(err)
	}
	r.end(four, stepwell.ExecutionCancelled)
	r.stop()
	nowhere(t, db, `vaulted"one`, `vaulted\"one`, "given-one", "given-two", "given-three", "given-four")
}

func checkOutput(t *testing.T, r *rig, guard *secret.Guard, id, want string) {
	t.Helper()
	stored := r.output(id, "a")
	opened, err := guard.Open(id, []byte(stored))
	if err != nil || string(opened) != want || !secret.Sealed([]byte(stored)) {
		t.Errorf("the output %s is opened as %s, %v", stored, opened, err)
	}
}

// TestWhatWaitsIsSealed: the key of a start, and an event that comes before the step that awaits it, may hold the
// value of a secret parameter not known yet. Neither is in the database in clear; both work, also after a restart
// with another master key, and a key stored in clear is found.
func TestWhatWaitsIsSealed(t *testing.T) {
	db := filepath.Join(t.TempDir(), "w.db")
	var guard *secret.Guard
	r := newRig(t, build{db: db})
	echo := r.register(pipeline(t, one("t.echo")))
	old, _, err := r.StartOnce(t.Context(), keyed(echo, "in-clear", "asked"))
	if err != nil {
		t.Fatal(err)
	}
	r.end(old, stepwell.ExecutionCompleted)
	r.stop()

	r = newRig(t, build{db: db, set: guarded(t, &guard, 1)})
	echo = r.register(pipeline(t, one("t.echo")))
	id, _, err := r.StartOnce(t.Context(), keyed(echo, "order-hunter-2", "asked"))
	if err != nil {
		t.Fatal(err)
	}
	r.end(id, stepwell.ExecutionCompleted)
	r.signal("key-1", "0", `{"outputs":{"v":"early hunter-3"}}`, true, false)
	r.signal("key-1", "0", `{"outputs":{"v":"early hunter-3"}}`, false, false) // it has come before
	r.stop()
	nowhere(t, db, "hunter-2", "hunter-3")

	r = newRig(t, build{db: db, set: guarded(t, &guard, 2, 1)})
	echo = r.register(pipeline(t, one("t.echo")))
	for key, want := range map[string]string{"order-hunter-2": id, "in-clear": old} {
		if found, err := r.StartKey(t.Context(), key); err != nil || found.Execution != want {
			t.Errorf("the key %s: %+v, %v", key, found, err)
		}
	}
	if again, fresh, err := r.StartOnce(t.Context(), keyed(echo, "order-hunter-2", "asked")); err != nil || fresh || again != id {
		t.Errorf("the same start again: %s, fresh %v, %v", again, fresh, err)
	}
	p := r.register(pipeline(t, "name: waits\nparameters: [{name: k, type: string, secret: true}]\nsteps:\n  - {id: a, action: t.await, params: {n: \"1\"}}\n"))
	waits := r.start(p, 0, map[string]any{"k": "hunter-3"})
	r.end(waits, stepwell.ExecutionCompleted)
	checkOutput(t, r, guard, waits, `{"v":"early hunter-3"}`)
	r.stop()
	nowhere(t, db, "hunter-2", "hunter-3")
}
