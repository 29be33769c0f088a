// Package lsp is a language server for pipeline documents: diagnostics while typing, completion, hover, definition, references, rename,
// code actions and symbols, over JSON-RPC on a pair of streams (Language Server Protocol 3.17).
//
// How files are found, and which actions there are, is an input (Options). Text that is broken while it is being
// typed is answered from the last definition that could be read and from the indentation around the cursor. Bounds: a message has at
// most 64 MiB, a session 500 open documents.
package lsp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/lint"
	"github.com/stepwell/stepwell/spec"
)

// Options are what the server knows.
type Options struct {
	// Version is that of the program.
	Version string
	// Catalog has the actions and modules; Specs are those that are listed.
	Catalog definition.Catalog
	Specs   []spec.Spec
	// Load parses and checks a pipeline with its sub-pipelines, whose files it asks read for. The pipeline is nil when its text
	// cannot be read; the error is about other files.
	Load func(file string, read func(file string) ([]byte, error)) (*Pipeline, definition.Problems, error)
	// Read reads a file of limited size.
	Read func(file string) ([]byte, error)
	// Tests finds what is wrong with a file of tests.
	Tests func(file string, src []byte) definition.Problems
	// TestSchema describes files of tests for completion (scenario.Schema). Nil: nothing is completed in them.
	TestSchema map[string]any
	// Facts are those of lint.
	Facts lint.Facts
	// Quiet is how long nothing may be typed before diagnostics are sent. Defaults to none.
	Quiet time.Duration
}

// Pipeline is a document that could be read.
type Pipeline struct {
	Definition *definition.Definition // as Parse has made it, with its sub-pipelines
	Files      map[string]string      // of the sub-pipelines, by the names that steps use
	Survey     *definition.Surveyed   // of Definition, if there is one
}

// maxDocuments bounds the open documents.
const maxDocuments = 500

// server is one session. One goroutine has all of it.
type server struct {
	o         Options
	out       *bufio.Writer
	documents map[string]*document
	dirty     []string // URIs whose diagnostics are to be sent
	typed     bool     // since the pause began that they wait for
	ready     bool
	shutdown  bool
	schema    map[string]any
	beside    struct { // the pipeline of tests that was looked at last
		file, src string
		known     *analysis
	}
}

// Serve answers a client until it says exit, the input ends, or ctx is done. It neither closes nor leaves in: a read that waits for
// the client ends with the process.
func Serve(ctx context.Context, in io.Reader, out io.Writer, o Options) error {
	s := &server{o: o, out: bufio.NewWriter(out), documents: map[string]*document{}, schema: definition.Schema()}
	type received struct {
		body []byte
		err  error
	}
	inbox := make(chan received, 16)
	go func() {
		r := bufio.NewReaderSize(in, maxHeader)
		for {
			body, err := readMessage(r)
			select {
			case inbox <- received{body, err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	quiet := time.NewTimer(o.Quiet)
	quiet.Stop()
	defer quiet.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case m := <-inbox:
			switch {
			case errors.Is(m.err, io.EOF) && !errors.Is(m.err, errFrame):
				return nil
			case m.err != nil:
				return m.err
			}
			if done, err := s.receive(m.body); done || err != nil {
				return err
			}
			if s.typed {
				s.typed = false
				quiet.Reset(o.Quiet)
			}
		case <-quiet.C:
			if err := s.publish(); err != nil {
				return err
			}
			if len(s.dirty) > 0 {
				quiet.Reset(0)
			}
		}
	}
}

// errNoExit is what a client has left out.
var errNoExit = errors.New("the client said exit without shutdown")

// receive answers one message; done says that it was the last.
func (s *server) receive(body []byte) (done bool, err error) {
	var m message
	if err := json.Unmarshal(body, &m); err != nil {
		return false, s.fail(json.RawMessage("null"), &failure{codeParse, "the message is not JSON"})
	}
	switch {
	case m.Method == "exit":
		if !s.shutdown {
			return true, errNoExit
		}
		return true, nil
	case m.Method == "" && m.ID == nil:
		return false, s.fail(json.RawMessage("null"), &failure{codeInvalidRequest, "the message has neither a method nor an id"})
	case m.Method == "": // the answer to a request of ours: there are none
		return false, nil
	case m.ID == nil:
		return false, s.notified(&m)
	}
	result, err := s.request(&m)
	if err != nil {
		var f *failure
		if !errors.As(err, &f) {
			f = &failure{codeInvalidParams, err.Error()}
		}
		return false, s.fail(m.ID, f)
	}
	return false, s.send(answer{"2.0", m.ID, result})
}

func (s *server) send(v any) error {
	if err := writeMessage(s.out, v); err != nil {
		return err
	}
	return s.out.Flush()
}

func (s *server) fail(id json.RawMessage, f *failure) error {
	return s.send(errorAnswer{"2.0", id, f})
}

// methods are the requests about a document.
var methods = map[string]func(s *server, d *document, p *placeParams) (any, error){
	"textDocument/completion":     (*server).complete,
	"textDocument/hover":          (*server).hover,
	"textDocument/definition":     (*server).definition,
	"textDocument/references":     (*server).references,
	"textDocument/prepareRename":  (*server).prepareRename,
	"textDocument/rename":         (*server).rename,
	"textDocument/documentSymbol": (*server).symbols,
	"textDocument/codeAction":     (*server).actions,
}

func (s *server) request(m *message) (any, error) {
	switch {
	case m.Method == "initialize":
		s.ready = true
		return s.capabilities(), nil
	case m.Method == "shutdown":
		s.shutdown = true
		return nil, nil
	case !s.ready:
		return nil, &failure{codeNotReady, "initialize comes first"}
	}
	serve, ok := methods[m.Method]
	if !ok {
		return nil, &failure{codeUnknownMethod, fmt.Sprintf("there is no method %.100q", m.Method)}
	}
	var p placeParams
	if err := json.Unmarshal(m.Params, &p); err != nil {
		return nil, err
	}
	d := s.documents[p.Document.URI]
	if d == nil {
		return nil, fmt.Errorf("the document %.200q is not open", p.Document.URI)
	}
	return serve(s, d, &p)
}

func (s *server) capabilities() any {
	return map[string]any{
		"serverInfo": map[string]any{"name": "stepwell", "version": s.o.Version},
		"capabilities": map[string]any{
			"positionEncoding":       "utf-16",
			"textDocumentSync":       map[string]any{"openClose": true, "change": 2, "save": map[string]any{}},
			"completionProvider":     map[string]any{"triggerCharacters": []string{".", " ", ":", "|", "{", "-", "\"", "["}},
			"hoverProvider":          true,
			"definitionProvider":     true,
			"referencesProvider":     true,
			"renameProvider":         map[string]any{"prepareProvider": true},
			"documentSymbolProvider": true,
			"codeActionProvider":     map[string]any{"codeActionKinds": []string{"quickfix"}},
		},
	}
}

// notified takes a notification. One that cannot be read is left out: there is no answer to it.
func (s *server) notified(m *message) error {
	switch m.Method {
	case "textDocument/didOpen":
		var p openParams
		if json.Unmarshal(m.Params, &p) != nil {
			return nil
		}
		if len(s.documents) >= maxDocuments && s.documents[p.Document.URI] == nil {
			return s.send(notification{"2.0", "window/showMessage", map[string]any{"type": severityWarning,
				"message": fmt.Sprintf("more than %d documents are open: stepwell leaves the others alone", maxDocuments)}})
		}
		d := &document{uri: p.Document.URI, file: fileOf(p.Document.URI), language: p.Document.Language, version: p.Document.Version, text: newText(p.Document.Text)}
		s.documents[d.uri] = d
		s.changed(d)
	case "textDocument/didChange":
		var p changeParams
		d := (*document)(nil)
		if json.Unmarshal(m.Params, &p) == nil {
			d = s.documents[p.Document.URI]
		}
		if d == nil {
			return nil
		}
		for _, c := range p.Changes {
			d.text = newText(d.text.replace(c.Range, c.Text))
		}
		d.version = p.Document.Version
		s.changed(d)
	case "textDocument/didClose":
		var p changeParams
		if json.Unmarshal(m.Params, &p) != nil || s.documents[p.Document.URI] == nil {
			return nil
		}
		delete(s.documents, p.Document.URI)
		return s.send(notification{"2.0", "textDocument/publishDiagnostics", diagnosticsParams{URI: p.Document.URI, Diagnostics: []diagnostic{}}})
	case "textDocument/didSave", "workspace/didChangeWatchedFiles":
		for _, d := range s.documents {
			s.changed(d)
		}
	}
	return nil
}

// changed has a document looked at again, and those that run it.
func (s *server) changed(d *document) {
	s.typed = true
	for _, other := range s.documents {
		if other != d && (other.good == nil || !other.good.runs(d.file)) {
			continue
		}
		other.now = nil
		known := false
		for _, uri := range s.dirty {
			known = known || uri == other.uri
		}
		if !known {
			s.dirty = append(s.dirty, other.uri)
		}
	}
}

func (a *analysis) runs(file string) bool {
	for _, sub := range a.pipeline.Files {
		if sub == file {
			return true
		}
	}
	return false
}

// publish sends the diagnostics of one document, so that a request that has come meanwhile waits for no more than that.
func (s *server) publish() error {
	if len(s.dirty) == 0 {
		return nil
	}
	d := s.documents[s.dirty[0]]
	s.dirty = s.dirty[1:]
	if d == nil {
		return nil
	}
	version := d.version
	return s.send(notification{"2.0", "textDocument/publishDiagnostics", diagnosticsParams{URI: d.uri, Version: &version, Diagnostics: s.diagnostics(d, s.analyse(d))}})
}
