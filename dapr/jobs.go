package dapr

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
)

// sameFiring is how long a Dapr job that comes again is the same firing: Dapr says nothing by which a repetition could be told, and
// repeats what failed three times, a second apart, unless the job has another policy.
const sameFiring = 5 * time.Second

// serveJob starts the job or webhook that has the name of a Dapr job. It answers when the execution is durable.
func (a *Adapter) serveJob(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	if name == WakeJob {
		answer(w, http.StatusOK, struct{}{}) // that the server runs is all that it is for
		return
	}
	execution, fresh, err := a.fire(w, r, name)
	if err != nil {
		a.o.Log.WarnContext(r.Context(), "a Dapr job started nothing", "job", stepwell.Clip(name, 200), "error", err)
		code, p := refusal(err)
		answer(w, code, p)
		return
	}
	answer(w, http.StatusOK, map[string]any{"execution_id": execution, "repeated": !fresh})
}

// fire starts what a Dapr job is for, once for each of its firings.
func (a *Adapter) fire(w http.ResponseWriter, r *http.Request, name string) (execution string, fresh bool, err error) {
	if err := a.o.Ready(); err != nil {
		return "", false, err
	}
	if len(name) > 200 {
		return "", false, stepwell.Errorf(stepwell.CodeNotFound, "", "there is no job or webhook of this name")
	}
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(a.o.MaxEvent)))
	if err != nil {
		return "", false, stepwell.Invalid("send less", "the data of the job cannot be read: %v", err)
	}
	ctx, cancel := context.WithTimeout(r.Context(), eventTime)
	defer cancel()
	key, err := a.firingKey(ctx, name, data)
	if err != nil {
		return "", false, err
	}
	return a.o.Fire(ctx, name, key, data)
}

// firingKey names a firing: by the idempotency_key in its data, else by its time.
func (a *Adapter) firingKey(ctx context.Context, name string, data []byte) (string, error) {
	var own struct {
		Key string `json:"idempotency_key"`
	}
	if json.Unmarshal(data, &own) == nil && own.Key != "" {
		sum := sha256.Sum256([]byte(own.Key))
		return "dapr:" + name + ":key:" + hex.EncodeToString(sum[:]), nil
	}
	now := a.o.Now()
	slot := now.UnixNano() / int64(sameFiring)
	key := func(slot int64) string { return "dapr:" + name + ":" + strconv.FormatInt(slot, 10) }
	at, err := a.o.Fired(ctx, key(slot-1))
	if err != nil {
		return "", err
	}
	if !at.IsZero() && now.Sub(at) < sameFiring {
		return key(slot - 1), nil
	}
	return key(slot), nil
}

// DataOf are the data of a Dapr job as parameters: an object as it is, another value as value.
func DataOf(raw []byte) (map[string]any, error) {
	if len(strings.TrimSpace(string(raw))) == 0 {
		return nil, nil
	}
	d, err := dataOf("application/json", raw)
	return d, err
}
