package main

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api"
)

// defaultServer is where `stepwell serve` is when nothing else is said.
const defaultServer = "http://" + defaultListen

// remotePatience bounds one call of the API.
const remotePatience = 60 * time.Second

// connection says which server a command speaks to.
type connection struct {
	server string
	output *choice
}

func (c *connection) add(f *pflag.FlagSet) {
	f.StringVar(&c.server, "server", "", "`URL` of the server; else STEPWELL_SERVER, else "+defaultServer)
	c.output = format(f, "text", "json")
}

// caller is what commands need of an api.Client.
type caller interface {
	Call(ctx context.Context, method, path string, query url.Values, body, answer any) error
	CallIf(ctx context.Context, method, path, ifMatch string, body, answer any) (tag string, err error)
	Wait(ctx context.Context, id string) (*api.ExecutionDetail, error)
	Stream(ctx context.Context, id string, o api.StreamOptions) iter.Seq2[api.StreamMessage, error]
}

// dial makes a client. The key comes from the environment: arguments are seen by everybody on the machine.
func (p *program) dial(c *connection) (caller, error) {
	address := c.server
	if address == "" {
		address, _ = p.env("STEPWELL_SERVER")
	}
	if address == "" {
		address = defaultServer
	}
	key, _ := p.env("STEPWELL_API_KEY")
	return api.NewClient(api.ClientOptions{URL: address, Token: key})
}

// calling runs f with a client and a context that ends with an interrupt.
func (p *program) calling(c *connection, f func(ctx context.Context, api caller) error) error {
	server, err := p.dial(c)
	if err != nil {
		return err
	}
	alive, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeoutCause(alive, remotePatience, &stepwell.Error{Code: stepwell.CodeTimeout, Message: "no answer within " + remotePatience.String()})
	defer cancel()
	if err = f(ctx, server); err != nil && alive.Err() != nil {
		return exitError(exitInterrupted)
	}
	return err
}

// pathTo joins parts of a path, each of which may hold anything.
func pathTo(parts ...string) string {
	var b strings.Builder
	b.WriteString("/api/v1")
	for _, part := range parts {
		b.WriteByte('/')
		b.WriteString(url.PathEscape(part))
	}
	return b.String()
}

// object is one JSON object of an answer.
type object = map[string]any

// pages lists everything under a path, page by page, at most so many; items is the list's name in the answer.
func pages(ctx context.Context, api caller, path, items string, query url.Values, most int) ([]object, error) {
	all := []object{}
	for most > len(all) {
		var page map[string]json.RawMessage
		query.Set("limit", strconv.Itoa(min(100, most-len(all))))
		if err := api.Call(ctx, "GET", path, query, nil, &page); err != nil {
			return nil, err
		}
		var rows []object
		if err := decodeAnswer(page[items], &rows); err != nil {
			return nil, err
		}
		all = append(all, rows...)
		var next string
		if raw, ok := page["next_cursor"]; ok {
			if err := json.Unmarshal(raw, &next); err != nil {
				return nil, fmt.Errorf("answer: %w", err)
			}
		}
		if next == "" || len(rows) == 0 {
			break
		}
		query.Set("cursor", next)
	}
	return all, nil
}

func decodeAnswer(raw json.RawMessage, v any) error {
	if len(raw) == 0 {
		return nil
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return fmt.Errorf("the server's answer is not understood: %w", err)
	}
	return nil
}

// answered shows what a call has given: the JSON, or a line for people.
func (p *program) answered(c *connection, answer any, line string, args ...any) error {
	if c.output.value == "json" {
		return writeJSON(p.out, answer)
	}
	_, err := fmt.Fprintf(p.out, line+"\n", args...)
	return err
}

// verb makes a command that calls one path of one object, such as `schedules pause ID`.
func (p *program) verb(use, short, method string, path func(id string) string, line string) *cobra.Command {
	var c connection
	cmd := &cobra.Command{
		Use:   use,
		Short: short,
		Args:  arguments(1, 1, strings.ToUpper(strings.Fields(use)[1])),
		RunE: func(_ *cobra.Command, args []string) error {
			return p.calling(&c, func(ctx context.Context, api caller) error {
				var answer any
				if err := api.Call(ctx, method, path(args[0]), nil, nil, &answer); err != nil {
					return err
				}
				if o, ok := answer.(object); ok && c.output.value == "text" && len(o) > 0 {
					fmt.Fprintf(p.out, line+"\n", printable(args[0]))
					return p.showObject(o)
				}
				if answer == nil {
					answer = object{}
				}
				return p.answered(&c, answer, line, printable(args[0]))
			})
		},
	}
	c.add(cmd.Flags())
	return cmd
}

// group makes a command that only has others below it.
func (p *program) group(name string, aliases []string, short, long string, subs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: name, Aliases: aliases, Short: short, Args: p.unknownCommand,
		Long: long + "\n\nIt speaks to a server: --server URL, else STEPWELL_SERVER, else " + defaultServer + ". The API key is that\nof STEPWELL_API_KEY.",
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	cmd.AddCommand(subs...)
	return cmd
}
