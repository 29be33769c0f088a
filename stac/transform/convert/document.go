package convert

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strconv"

	"go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stream/files"
)

// MaxDocument bounds the text of a document.
const MaxDocument = 16 << 20

const maxDepth = 64

// ReadFile is Document for the one file that a pattern names, of up to MaxDocument.
func ReadFile(ctx context.Context, places *files.Places, dir, pattern string) (*item.Value, error) {
	paths, err := places.List(ctx, dir, pattern)
	if err != nil {
		return nil, err
	}
	if len(paths) != 1 {
		return nil, stepwell.Invalid("", "it is not one file")
	}
	in, _, err := places.Open(ctx, paths[0])
	if err != nil {
		return nil, err
	}
	defer in.Close()
	return readDocument(in)
}

func readDocument(in io.Reader) (*item.Value, error) {
	raw, err := io.ReadAll(io.LimitReader(in, MaxDocument+1))
	if err != nil {
		return nil, err
	}
	if len(raw) > MaxDocument {
		return nil, &stepwell.Error{Code: stepwell.CodeLimit, Message: "the file is larger than 16 MiB"}
	}
	return Document(raw)
}

// Document reads a configuration file: JSON, or YAML without aliases. The order of members and the digits of
// numbers stay; a date that is not quoted in YAML is the text that it is.
func Document(raw []byte) (*item.Value, error) {
	raw = bytes.TrimPrefix(raw, []byte("\ufeff"))
	if json.Valid(raw) {
		return item.Parse(raw)
	}
	if trimmed := bytes.TrimLeft(raw, " \t\r\n"); len(trimmed) > 0 && trimmed[0] == '{' && !bytes.Contains(trimmed, []byte(": ")) {
		return item.Parse(raw) // meant as JSON: say where it is wrong
	}
	dec, err := yaml.NewLoader(bytes.NewReader(raw), yaml.WithPlugin(loaderlimits.New(loaderlimits.DepthValue(maxDepth), loaderlimits.AliasNone())))
	if err != nil {
		return nil, err
	}
	var doc yaml.Node
	if err := dec.Load(&doc); err != nil && !errors.Is(err, io.EOF) {
		return nil, &stepwell.Error{Code: stepwell.CodeInvalid, Message: "neither JSON nor YAML", Err: err}
	}
	if len(doc.Content) == 0 {
		return nil, &stepwell.Error{Code: stepwell.CodeInvalid, Message: "the document is empty"}
	}
	return fromYAML(doc.Content[0])
}

func fromYAML(n *yaml.Node) (*item.Value, error) {
	switch n.Kind {
	case yaml.MappingNode:
		out := item.NewObject()
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			if key.Kind != yaml.ScalarNode || key.ShortTag() == "!!merge" || out.Get(key.Value) != nil {
				return nil, yamlFault(key, strconv.Quote(key.Value)+" is not a name, or is there twice")
			}
			val, err := fromYAML(n.Content[i+1])
			if err != nil {
				return nil, err
			}
			out.Set(key.Value, val)
		}
		return out, nil
	case yaml.SequenceNode:
		out := item.NewList()
		for _, inner := range n.Content {
			val, err := fromYAML(inner)
			if err != nil {
				return nil, err
			}
			out.Append(val)
		}
		return out, nil
	case yaml.ScalarNode:
		return scalar(n)
	}
	return nil, yamlFault(n, "aliases are not allowed")
}

func scalar(n *yaml.Node) (*item.Value, error) {
	switch n.ShortTag() {
	case "!!str", "!!timestamp":
		return item.OfText(n.Value), nil
	case "!!int", "!!float":
		if v, err := item.Parse([]byte(n.Value)); err == nil && v.Kind() == item.Number {
			return v, nil
		}
	}
	var v any
	if err := n.Decode(&v); err != nil {
		return nil, yamlFault(n, err.Error())
	}
	out, err := item.Of(v)
	if err != nil {
		return nil, yamlFault(n, err.Error())
	}
	return out, nil
}

func yamlFault(n *yaml.Node, what string) error {
	return &stepwell.Error{Code: stepwell.CodeInvalid, Message: "line " + strconv.Itoa(n.Line) + ": " + what}
}
