package fleet

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/store"
)

// Control are the requests that the owner of an execution carries out. A conductor.Conductor and a Router have them.
type Control interface {
	Cancel(ctx context.Context, id, reason string) error
	Pause(ctx context.Context, id string) error
	Resume(ctx context.Context, id string) error
	Restart(ctx context.Context, id, step string, failedOnly bool) error
}

// Requests is what a Router needs of the store.
type Requests interface {
	Execution(ctx context.Context, id string) (*store.Execution, error)
	PutRequest(ctx context.Context, r store.Request) error
}

// RouterOptions configure a Router. Control and Store are required.
type RouterOptions struct {
	Control Control // of this node
	Store   Requests
	// Key signs what nodes say to each other; all have the same (secret.StoredKey). Without one, requests go through the store.
	Key []byte
	// Serve serves a worker's call that another node has forwarded (Call). Defaults to none.
	Serve func(ctx context.Context, call []byte) (answer []byte, err error)
	// Client sends to other nodes. Defaults to one that follows no redirect and waits for ten seconds.
	Client *http.Client
}

// Router brings requests to the node that runs an execution: to the conductor of this one, over HTTP to another one, or through the
// store where that cannot be reached. It is the http.Handler of what other nodes send (POST Path).
//
// The errors are those of the conductor. CodeUnavailable: the execution's owner is dead, or it is not known whether it has got a
// restart; ask again after RetryAfter.
type Router struct {
	n *Node
	o RouterOptions
}

// Path is where a node takes the requests of others, below its address.
const Path = "/fleet/v1/request"

// Limits of what nodes send.
const (
	maxRequest  = 1 << 20  // bytes
	maxCall     = 40 << 20 // of a request that carries a worker's call, and of the answer
	forwardWait = 10 * time.Second
	maxSkew     = time.Minute // age of a request, by the store's clock
	maxMoves    = 3           // of the execution while a request follows it
)

const signatureHeader = "Stepwell-Signature"

// NewRouter makes the router of a node.
func NewRouter(n *Node, o RouterOptions) (*Router, error) {
	if o.Control == nil || o.Store == nil || o.Key != nil && len(o.Key) < sha256.Size {
		return nil, stepwell.Errorf(stepwell.CodeInternal, "", "fleet: a router needs Control and Store, and no Key of less than %d bytes", sha256.Size)
	}
	if o.Client == nil {
		o.Client = &http.Client{Timeout: forwardWait, Transport: &http.Transport{MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	return &Router{n, o}, nil
}

// Cancel implements Control.
func (r *Router) Cancel(ctx context.Context, id, reason string) error {
	return r.send(ctx, id, conductor.RequestCancel, conductor.RequestBody{Reason: reason})
}

// Pause implements Control.
func (r *Router) Pause(ctx context.Context, id string) error {
	return r.send(ctx, id, conductor.RequestPause, conductor.RequestBody{})
}

// Resume implements Control.
func (r *Router) Resume(ctx context.Context, id string) error {
	return r.send(ctx, id, conductor.RequestResume, conductor.RequestBody{})
}

// Restart implements Control. An execution that has ended is restarted here, whoever ran it.
func (r *Router) Restart(ctx context.Context, id, step string, failedOnly bool) error {
	row, err := r.o.Store.Execution(ctx, id)
	if err != nil {
		return err
	}
	if id = row.ID; row.Status.Terminal() {
		r.n.cache.drop(id)
	}
	return r.send(ctx, id, conductor.RequestRestart, conductor.RequestBody{Step: step, FailedOnly: failedOnly})
}

// send follows an execution to its owner.
func (r *Router) send(ctx context.Context, id, kind string, body conductor.RequestBody) error {
	m := message{Execution: id, Kind: kind, Body: body}
	for range maxMoves {
		err := r.carryOut(ctx, &m)
		e, ok := errors.AsType[*conductor.ElsewhereError](err)
		if !ok {
			return err
		}
		if m.To, err = strconv.ParseInt(e.Node, 10, 64); err != nil {
			return e
		}
		row, err := r.o.Store.Execution(ctx, m.Execution)
		if err != nil {
			return err
		}
		m.Execution = row.ID
		moved, err := r.forward(ctx, &m)
		if !moved {
			return err
		}
		r.n.cache.drop(m.Execution)
	}
	return unavailable(m.Execution)
}

// kindCall is the kind of a message with a worker's call.
const kindCall = "call"

// Call has the owner of an execution serve a worker's call (RouterOptions.Serve). CodeUnavailable: nobody knows whether it has, or it
// has no owner elsewhere.
func (r *Router) Call(ctx context.Context, id string, call []byte) (answer []byte, err error) {
	o, err := r.n.o.Store.OwnerOf(ctx, id, r.n.no, false)
	if err != nil {
		return nil, err
	}
	if o.No == r.n.no || o.Ended || !o.Alive {
		return nil, unavailable(id)
	}
	a, _, err := r.post(ctx, o.Address, &message{To: o.No, Execution: id, Kind: kindCall, Call: call})
	if err == nil && len(a.Answer) > 0 {
		return a.Answer, nil
	}
	if err == nil {
		err = cmp.Or(a.err(), errOther)
	}
	return nil, &stepwell.Error{Code: stepwell.CodeUnavailable, Message: fmt.Sprintf("node %d has not served a call of a worker", o.No), Err: err}
}

// carryOut asks this node's conductor.
func (r *Router) carryOut(ctx context.Context, m *message) error {
	switch m.Kind {
	case conductor.RequestCancel:
		return r.o.Control.Cancel(ctx, m.Execution, m.Body.Reason)
	case conductor.RequestPause:
		return r.o.Control.Pause(ctx, m.Execution)
	case conductor.RequestResume:
		return r.o.Control.Resume(ctx, m.Execution)
	case conductor.RequestRestart:
		return r.o.Control.Restart(ctx, m.Execution, m.Body.Step, m.Body.FailedOnly)
	}
	return stepwell.Invalid("", "unknown request %q", m.Kind)
}

// forward sends a request to another node. moved: that one does not run the execution any more.
func (r *Router) forward(ctx context.Context, m *message) (moved bool, err error) {
	peer, alive := r.n.peer(m.To)
	if !alive { // it may have come since the last beat
		o, err := r.n.o.Store.OwnerOf(ctx, m.Execution, r.n.no, false)
		if err != nil || o.No != m.To {
			return err == nil, err
		}
		peer = o.NodeRow
	}
	a, sent, err := r.post(ctx, peer.Address, m)
	switch {
	case err == nil && a.Moved:
		return true, nil
	case err == nil && a.Other:
		return r.leave(ctx, m, false, errOther)
	case err == nil:
		return false, a.err()
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	}
	return r.leave(ctx, m, sent, err)
}

// leave puts a request for an owner that cannot be reached into the store. A restart that may have arrived is not repeated.
func (r *Router) leave(ctx context.Context, m *message, sent bool, cause error) (moved bool, err error) {
	r.n.cache.drop(m.Execution)
	o, err := r.n.o.Store.OwnerOf(ctx, m.Execution, r.n.no, false)
	switch {
	case err != nil:
		return false, err
	case o.No != m.To || o.Ended:
		return true, nil
	case !o.Alive:
		return false, unavailable(m.Execution)
	case sent && m.Kind == conductor.RequestRestart:
		return false, &stepwell.Error{Code: stepwell.CodeUnavailable, Message: fmt.Sprintf("node %d has not answered", m.To), Hint: "see whether the execution was restarted, then ask again", Err: cause}
	}
	raw, err := json.Marshal(m.Body)
	if err != nil {
		return false, err
	}
	r.n.o.Log.Info("a node cannot be reached: it gets a request through the store", "node", m.To, "address", o.Address, "error", cause)
	return false, r.o.Store.PutRequest(ctx, store.Request{Owner: m.To, Execution: m.Execution, Kind: m.Kind, Body: raw})
}

// message is a request on its way. All of it is signed.
type message struct {
	To        int64                 `json:"to"`
	At        int64                 `json:"at"` // µs, the store's clock
	Execution string                `json:"execution"`
	Kind      string                `json:"kind"`
	Body      conductor.RequestBody `json:"body"`
	Call      json.RawMessage       `json:"call,omitempty"` // of a worker
}

// reply is what came of it. It is signed together with the request.
type reply struct {
	Moved   bool            `json:"moved,omitempty"` // the node does not run the execution
	Other   bool            `json:"other,omitempty"` // it is another node
	Code    stepwell.Code   `json:"code,omitempty"`
	Message string          `json:"message,omitempty"`
	Hint    string          `json:"hint,omitempty"`
	Answer  json.RawMessage `json:"answer,omitempty"` // to a worker's call
}

func (a *reply) err() error {
	if a.Code == "" {
		return nil
	}
	return &stepwell.Error{Code: a.Code, Message: a.Message, Hint: a.Hint}
}

// errOther is the error of an address where another node answers, such as one that every machine calls its own.
var errOther = errors.New("another node answers at its address")

// errNoAddress is the error of a node that takes no requests over HTTP.
var errNoAddress = errors.New("it has no address")

// post sends a request; sent reports whether an error leaves open if it has arrived.
func (r *Router) post(ctx context.Context, address string, m *message) (a *reply, sent bool, err error) {
	if address == "" || r.o.Key == nil {
		return nil, false, errNoAddress
	}
	m.At = r.n.Now().UnixMicro()
	raw, err := json.Marshal(m)
	if err != nil {
		return nil, false, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address+Path, bytes.NewReader(raw))
	if err != nil {
		return nil, false, err
	}
	signature := r.sign(raw)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(signatureHeader, signature)
	if m.Call != nil {
		hello, signature, err := r.hello(Path, m.To)
		if err != nil {
			return nil, false, err
		}
		req.Header.Set(helloHeader, hello)
		req.Header.Set(helloSignatureHeader, signature)
	}
	res, err := r.o.Client.Do(req)
	if err != nil {
		op, ok := errors.AsType[*net.OpError](err)
		return nil, !ok || op.Op != "dial", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxCall))
	if err != nil {
		return nil, true, err
	}
	if !r.signed(res.Header, []byte(signature), body) {
		return nil, true, fmt.Errorf("status %d without the signature of a node", res.StatusCode)
	}
	a = &reply{}
	return a, true, json.Unmarshal(body, a)
}

// helloSignatureHeader signs a hello beside a request.
const helloSignatureHeader = "Stepwell-Node-Signature"

// hello says for a path who connects, and signs it.
func (r *Router) hello(path string, to int64) (hello, signature string, err error) {
	raw, err := json.Marshal(nodeHello{To: to, From: r.n.no, At: r.n.Now().UnixMicro()})
	return string(raw), r.sign([]byte(path), raw), err
}

// known reads the hello of a node; ok is false without its signature, or if it is old.
func (r *Router) known(path, hello, signature string) (h nodeHello, ok bool) {
	ok = r.o.Key != nil && hmac.Equal([]byte(signature), []byte(r.sign([]byte(path), []byte(hello)))) && json.Unmarshal([]byte(hello), &h) == nil
	return h, ok && r.n.Now().Sub(time.UnixMicro(h.At)).Abs() <= maxSkew
}

func (r *Router) sign(parts ...[]byte) string {
	h := hmac.New(sha256.New, r.o.Key)
	for _, p := range parts {
		h.Write(p)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func (r *Router) signed(header http.Header, parts ...[]byte) bool {
	return hmac.Equal([]byte(header.Get(signatureHeader)), []byte(r.sign(parts...)))
}

// ServeHTTP takes a request of another node. One without the signature of a node, or an old one, gets 401 and has no effect.
func (r *Router) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	most := int64(maxRequest)
	if _, ok := r.known(Path, req.Header.Get(helloHeader), req.Header.Get(helloSignatureHeader)); ok { // large ones are read from nodes alone
		most = maxCall
	}
	raw, err := io.ReadAll(http.MaxBytesReader(w, req.Body, most))
	var m message
	switch {
	case req.Method != http.MethodPost:
		http.Error(w, "POST only", http.StatusMethodNotAllowed)
		return
	case r.o.Key == nil || err != nil || !r.signed(req.Header, raw) || json.Unmarshal(raw, &m) != nil || r.n.Now().Sub(time.UnixMicro(m.At)).Abs() > maxSkew:
		http.Error(w, "not signed by a node", http.StatusUnauthorized)
		return
	}
	body, err := json.Marshal(r.answer(req.Context(), &m))
	if err != nil {
		http.Error(w, "the answer cannot be written", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set(signatureHeader, r.sign([]byte(req.Header.Get(signatureHeader)), body))
	if _, err := w.Write(body); err != nil {
		r.n.o.Log.Debug("a node did not wait for its answer", "error", err)
	}
}

// answer carries out a request. It is not sent on: the sender looks again where the execution is.
func (r *Router) answer(ctx context.Context, m *message) reply {
	if m.To != r.n.no {
		return reply{Other: true}
	}
	if m.Kind == kindCall && r.o.Serve != nil {
		answer, err := r.o.Serve(ctx, m.Call)
		return reply{Answer: answer, Code: stepwell.CodeOf(err)}
	}
	err := r.carryOut(ctx, m)
	if _, ok := errors.AsType[*conductor.ElsewhereError](err); ok {
		return reply{Moved: true}
	}
	if err == nil {
		return reply{}
	}
	return reply{Code: stepwell.CodeOf(err), Message: err.Error(), Hint: stepwell.HintOf(err)}
}
