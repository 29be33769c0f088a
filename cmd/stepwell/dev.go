package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/stepwell/stepwell/fakeai"
)

func (p *program) newDevCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "dev", Short: "Try pipelines without the services that they call", RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	var o fakeai.Options
	fake := &cobra.Command{
		Use:   "fake-ai",
		Short: "Stand in for a service of language models and transcription",
		Long: `Stand in for a service with OpenAI's API, on this machine and without a network, an account or costs, until Ctrl-C.
The first line of the output is its base URL, for the parameter url of ai.chat and ai.transcribe:

  POST /v1/chat/completions      with streaming, tools and response_format
  POST /v1/audio/transcriptions  json, verbose_json, text, srt, vtt
  GET  /v1/models
  GET  /requests                 the last 256 requests, without API keys; DELETE forgets them

The same request gets the same answer. JSON that is asked for fits its schema. A tool is called when tool_choice says
so, or when the last message of the user has its name.

--fault names what goes wrong, separated by commas. A request may name its own instead, in the header
` + fakeai.Header + ` or the query parameter fault of the URL (?fault=rate_limit=2).

` + fakeai.Faults,
		Args: arguments(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return fakeai.Run(ctx, o, p.out)
		},
	}
	fake.Flags().StringVar(&o.Listen, "listen", "127.0.0.1:0", "`address`; port 0 is one that the system chooses")
	fake.Flags().StringVar(&o.Key, "key", "", "refuse requests without this API `key`")
	fake.Flags().StringVar(&o.Faults, "fault", "", "`faults` of requests that name none")
	cmd.AddCommand(fake)
	return cmd
}
