package main

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stepwell/stepwell/api/client"
	"github.com/stepwell/stepwell/completion"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/starter"
)

// completionPatience bounds what one press of a key asks.
const completionPatience = 2 * time.Second

// completing reports whether a shell asks for completions, which nothing else needs.
func completing(args []string) bool {
	return len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd)
}

// completions are where completed words come from.
func (p *program) completions() *completion.Source {
	p.err = io.Discard // what is wrong shows when the command is run
	return &completion.Source{
		Actions:   func() []string { return p.specNames(func(s *spec.Spec) bool { return s.Stream == nil && !s.Internal }) },
		Modules:   func() []string { return p.specNames(func(s *spec.Spec) bool { return s.Stream != nil }) },
		Templates: starter.Names,
		Parameters: func(file string) []definition.Parameter {
			text, _ := readFile(file, maxDocument) // one that cannot be read declares nothing
			if d, _ := definition.Parse(text, definition.ParseOptions{File: file, Lenient: true, Sent: true}); d != nil {
				return d.Parameters
			}
			return nil
		},
		Ask: func(cmd *cobra.Command, f func(ctx context.Context, c *client.Client) error) error {
			if err := p.configure(cmd); err != nil {
				return err
			}
			c := &connection{flags: cmd.Flags(), lasts: true, here: cmd.HasParent() && cmd.Parent().Name() == "executions"}
			if server := cmd.Flags().Lookup("server"); server != nil {
				c.server = server.Value.String()
			}
			return p.calling(c, func(ctx context.Context, client *client.Client) error {
				ctx, cancel := context.WithTimeout(ctx, completionPatience)
				defer cancel()
				return f(ctx, client)
			})
		},
	}
}

// specNames are the names of what the registry has of a kind, with their summaries.
func (p *program) specNames(listed func(*spec.Spec) bool) (names []string) {
	all, err := p.registry()
	if err != nil {
		return nil
	}
	for _, s := range all.Specs() {
		if listed(&s) {
			names = append(names, s.Name+"\t"+s.Summary)
		}
	}
	return names
}
