package kubetest

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	maxLog     = 100_000 // lines of a pod
	maxMessage = 4 << 10 // bytes of a termination message, as the kubelet has it
)

// pod is one pod of a node.
type pod struct {
	k      *Kubelet
	object Object

	once    sync.Once
	deleted chan struct{} // closed when the pod is to go
	ended   chan struct{} // closed when its log is whole

	mu    sync.Mutex
	lines []line
	more  chan struct{} // closed when there is another line
	ip    string        // "": it has none
}

type line struct {
	at   time.Time
	text string
}

func (p *pod) name() string { return p.object.Text("metadata", "name") }

func (p *pod) path() string { return "/api/v1/namespaces/" + p.k.namespace + "/pods/" + p.name() }

func (p *pod) container() Object {
	if all := p.object.List("spec", "containers"); len(all) > 0 {
		return all[0]
	}
	return Object{}
}

// end says that the pod is to go.
func (p *pod) end() { p.once.Do(func() { close(p.deleted) }) }

// live carries the pod from its binding to its deletion.
func (p *pod) live(ctx context.Context) {
	started := time.Now()
	code, reason, ran := 0, "", false
	switch {
	case p.container().Text("image") == NeverStarts:
		p.pending(ctx, Object{"conditions": []Object{{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available: 1 Insufficient cpu."}}})
	case !p.bind(ctx):
	case p.container().Text("image") == MissingImage:
		p.pending(ctx, p.waiting("ErrImagePull", "failed to pull and unpack image: not found"))
		p.pending(ctx, p.waiting("ImagePullBackOff", "Back-off pulling image \""+MissingImage+"\""))
	default:
		p.pending(ctx, p.waiting("ContainerCreating", ""))
		code, reason, ran = p.run(ctx)
	}
	close(p.ended)
	if ran && ctx.Err() == nil {
		p.pause(ctx)
		p.pending(ctx, p.terminated(started, code, reason))
	}
	select {
	case <-ctx.Done():
		return
	case <-p.deleted:
	}
	p.retried(ctx, func() error {
		_, err := p.k.c.Do(ctx, "DELETE", p.path(), Object{"gracePeriodSeconds": 0, "preconditions": Object{"uid": p.object.Text("metadata", "uid")}})
		return err
	})
}

// retried does something until the API server has answered, whatever it says of pods that are gone.
func (p *pod) retried(ctx context.Context, do func() error) {
	for ctx.Err() == nil {
		var said *StatusError
		if err := do(); err == nil || (errors.As(err, &said) && said.Code < 500 && said.Code != http.StatusTooManyRequests) {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// bind takes the pod, which another node may have taken before.
func (p *pod) bind(ctx context.Context) bool {
	if p.object.Text("spec", "nodeName") != "" {
		return true
	}
	bound := false
	p.retried(ctx, func() error {
		_, err := p.k.c.Do(ctx, "POST", p.path()+"/binding", Object{"metadata": Object{"name": p.name()}, "target": Object{"kind": "Node", "name": p.k.Node}})
		bound = err == nil
		return err
	})
	return bound
}

// pending merges a status.
func (p *pod) pending(ctx context.Context, status Object) {
	p.retried(ctx, func() error {
		_, err := p.k.c.Patch(ctx, p.path()+"/status", Object{"status": status})
		return err
	})
}

func (p *pod) waiting(reason, message string) Object {
	return p.status("Pending", Object{"waiting": Object{"reason": reason, "message": message}})
}

func (p *pod) status(phase string, state Object) Object {
	return Object{"phase": phase, "startTime": stamp(time.Now()), "containerStatuses": []Object{{"name": p.container().Text("name"), "image": p.container().Text("image"), "imageID": "",
		"ready": phase == "Running", "started": phase == "Running", "restartCount": 0, "state": state}}}
}

func (p *pod) terminated(started time.Time, code int, message string) Object {
	phase, reason := "Succeeded", "Completed"
	if code != 0 {
		phase, reason = "Failed", "Error"
	}
	status := p.status(phase, Object{"terminated": Object{"exitCode": code, "reason": reason, "message": message, "startedAt": stamp(started), "finishedAt": stamp(time.Now())}})
	status["conditions"] = []Object{{"type": "Ready", "status": "False", "reason": "PodCompleted", "lastTransitionTime": stamp(time.Now())}}
	return status
}

func stamp(at time.Time) string { return at.UTC().Format(time.RFC3339) }

// pause waits as long as the node is slow.
func (p *pod) pause(ctx context.Context) {
	p.k.mu.Lock()
	delay := p.k.delay
	p.k.mu.Unlock()
	select {
	case <-ctx.Done():
	case <-p.deleted:
	case <-time.After(delay):
	}
}

// run runs the container to its end, and returns its exit code and termination message; not whether it was never started.
func (p *pod) run(ctx context.Context) (code int, message string, ran bool) {
	select {
	case p.k.starts <- struct{}{}:
	case <-ctx.Done():
		return 0, "", false
	case <-p.deleted:
		return 0, "", false
	}
	p.pause(ctx)
	messages := filepath.Join(p.k.dir, p.object.Text("metadata", "uid"))
	cmd, output, err := p.start(ctx, messages)
	if err == nil {
		p.running(ctx, p.probe() == "")
	}
	<-p.k.starts
	if err != nil {
		p.pending(ctx, p.waiting("CreateContainerConfigError", err.Error()))
		return 0, "", false
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		p.read(output)
	}()
	probing, stop := context.WithCancel(ctx)
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		p.askReadiness(probing)
	}()
	code = p.wait(ctx, cmd)
	stop()
	<-asked
	_ = output.SetReadDeadline(time.Now().Add(10 * time.Second)) // it may have started something outside of its group
	<-read
	return code, p.message(messages, code), true
}

// start starts the container's command as the first of a group of processes, and returns its output.
func (p *pod) start(ctx context.Context, messages string) (*exec.Cmd, *os.File, error) {
	c := p.container()
	var words []string
	for _, key := range []string{"command", "args"} {
		list, _ := c.At(key).([]any) // nil where there is none
		for _, w := range list {
			words = append(words, w.(string))
		}
	}
	env, err := p.env(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	cmd, err := p.make(words, append(env, TerminationLog+"="+messages))
	if err != nil {
		return nil, nil, err
	}
	asGroup(cmd)
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	cmd.Stdout, cmd.Stderr = w, w
	err = cmd.Start()
	_ = w.Close() // the process has it
	if err != nil {
		_ = r.Close() // nothing was written
		return nil, nil, err
	}
	return cmd, r, nil
}

// make makes the container's process, by the node's runtime if it has one.
func (p *pod) make(words, env []string) (cmd *exec.Cmd, err error) {
	p.k.mu.Lock()
	runtime := p.k.run
	p.k.mu.Unlock()
	if runtime != nil {
		cmd, p.ip, err = runtime(p.object, words, env)
		return cmd, err
	}
	if len(words) == 0 {
		words = []string{"true"} // the entry point of an image that does nothing
	}
	cmd = exec.Command(words[0], words[1:]...)
	cmd.Dir, cmd.Env = p.k.dir, append(env, "PATH="+os.Getenv("PATH"))
	return cmd, nil
}

// running says that the container runs, and whether the pod is ready.
func (p *pod) running(ctx context.Context, ready bool) {
	status := p.status("Running", Object{"running": Object{"startedAt": stamp(time.Now())}})
	status["containerStatuses"].([]Object)[0]["ready"] = ready
	status["conditions"] = []Object{{"type": "Ready", "status": map[bool]string{true: "True", false: "False"}[ready], "lastTransitionTime": stamp(time.Now())}}
	if p.ip != "" {
		status["podIP"], status["podIPs"] = p.ip, []Object{{"ip": p.ip}}
	}
	p.pending(ctx, status)
}

// probe is where the container is asked whether it is ready. "": it is not asked.
func (p *pod) probe() string {
	at := p.container().At("readinessProbe", "httpGet")
	if p.ip == "" || at == nil {
		return ""
	}
	ask := Object(at.(map[string]any))
	port := fmt.Sprint(ask["port"])
	for _, named := range p.container().List("ports") {
		if named.Text("name") == port {
			port = fmt.Sprint(named["containerPort"])
		}
	}
	return "http://" + p.ip + ":" + port + ask.Text("path")
}

// askReadiness asks ten times a second, which is what the probe's periods come to here, and tells what changes.
func (p *pod) askReadiness(ctx context.Context) {
	address, was := p.probe(), false
	client := http.Client{Timeout: 2 * time.Second}
	for address != "" && ctx.Err() == nil {
		is := false
		if resp, err := client.Get(address); err == nil {
			is = resp.StatusCode < 400
			_ = resp.Body.Close() // the status says it
		}
		if is != was {
			p.running(ctx, is)
			was = is
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// env is the container's environment: values, those of secrets and the pod's name.
func (p *pod) env(ctx context.Context, c Object) ([]string, error) {
	var env []string
	for _, v := range c.List("env") {
		value := expand(v.Text("value"), env)
		if v.Text("valueFrom", "fieldRef", "fieldPath") == "metadata.name" {
			value = p.name()
		}
		if ref := v.Text("valueFrom", "secretKeyRef", "name"); ref != "" {
			secret, err := p.k.c.Do(ctx, "GET", "/api/v1/namespaces/"+p.k.namespace+"/secrets/"+ref, nil)
			if err != nil {
				return nil, err
			}
			data, err := base64.StdEncoding.DecodeString(secret.Text("data", v.Text("valueFrom", "secretKeyRef", "key")))
			if err != nil {
				return nil, err
			}
			value = string(data)
		}
		env = append(env, v.Text("name")+"="+value)
	}
	return env, nil
}

// expand puts variables in place of $(NAME).
func expand(text string, env []string) string {
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		text = strings.ReplaceAll(text, "$("+name+")", value)
	}
	return text
}

// wait waits for the end of the process and ends what is left of its group. A pod that is deleted has its grace period, at most
// what it says itself.
func (p *pod) wait(ctx context.Context, cmd *exec.Cmd) int {
	ended := make(chan struct{})
	go func() {
		select {
		case <-ended:
			return
		case <-ctx.Done():
		case <-p.deleted:
			grace, _ := p.object.At("spec", "terminationGracePeriodSeconds").(float64) // none: at once
			signalGroup(cmd, false)
			select {
			case <-ended:
				return
			case <-ctx.Done():
			case <-time.After(time.Duration(grace) * time.Second):
			}
		}
		signalGroup(cmd, true)
	}()
	_ = cmd.Wait() // its state says how
	close(ended)
	signalGroup(cmd, true)
	if code := cmd.ProcessState.ExitCode(); code >= 0 {
		return code
	}
	return 137 // killed
}

// message is what the container has written to its termination log, or else, where its policy says so and it has failed, the
// end of its log.
func (p *pod) message(file string, code int) string {
	data, err := os.ReadFile(file)
	if err == nil && len(data) > 0 {
		return string(data[:min(len(data), maxMessage)])
	}
	if code == 0 || p.container().Text("terminationMessagePolicy") != "FallbackToLogsOnError" {
		return ""
	}
	var all strings.Builder
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.lines[max(0, len(p.lines)-80):] {
		all.WriteString(l.text + "\n")
	}
	text := all.String()
	return text[max(0, len(text)-2048):]
}

// read takes the log's lines until the container and all that it has started have closed it.
func (p *pod) read(r *os.File) {
	defer r.Close()
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		p.mu.Lock()
		if len(p.lines) < maxLog {
			p.lines = append(p.lines, line{time.Now().UTC(), lines.Text()})
		}
		close(p.more)
		p.more = make(chan struct{})
		p.mu.Unlock()
	}
	_, _ = io.Copy(io.Discard, r) // a line too long: nobody waits for its reader
}

// logs serves a container's log: all of it, since a time, its last lines, followed until the end or not.
func (k *Kubelet) logs(w http.ResponseWriter, r *http.Request) {
	var p *pod
	for _, known := range k.known() {
		if known.name() == r.PathValue("pod") {
			p = known
		}
	}
	if p == nil {
		http.Error(w, "pod not found", http.StatusNotFound)
		return
	}
	q := r.URL.Query()
	since, _ := time.Parse(time.RFC3339Nano, q.Get("sinceTime")) // none: the beginning
	tail := -1
	if n, err := strconv.Atoi(q.Get("tailLines")); err == nil {
		tail = n
	}
	k.mu.Lock()
	cut := k.cut
	k.mu.Unlock()
	for sent := 0; ; {
		whole := false
		select {
		case <-p.ended:
			whole = true
		default:
		}
		p.mu.Lock()
		lines, more := p.lines, p.more
		p.mu.Unlock()
		if sent == 0 && tail >= 0 {
			sent, tail = max(0, len(lines)-tail), -1
		}
		for _, l := range lines[sent:] {
			if sent++; l.at.Before(since) {
				continue
			}
			if q.Get("timestamps") == "true" {
				_, _ = io.WriteString(w, l.at.Format("2006-01-02T15:04:05.000000000Z07:00")+" ") // who does not read is found below
			}
			_, _ = io.WriteString(w, l.text+"\n")
		}
		_ = http.NewResponseController(w).Flush() // as above
		if whole || q.Get("follow") != "true" {
			return
		}
		select {
		case <-more:
		case <-p.ended:
		case <-cut:
			return
		case <-r.Context().Done():
			return
		}
	}
}
