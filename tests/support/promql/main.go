// Command promql checks alerts and queries with Prometheus's own parser and engine.
//
//	promql test FILE       carries out unit tests of alerts, in the format of promtool
//	promql selectors       reads expressions (JSON) and writes what each one selects
//
// It has the part of promtool that the tests of this repository need. Promtool itself takes minutes
// to build, because it links the clients of all clouds.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
)

var promQL = parser.NewParser(parser.Options{})

func main() {
	model.NameValidationScheme = model.LegacyValidation
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	switch {
	case len(arguments) == 2 && arguments[0] == "test":
		return testFile(arguments[1])
	case len(arguments) == 1 && arguments[0] == "selectors":
		return writeSelectors()
	}
	return fmt.Errorf("usage: promql test FILE | promql selectors < EXPRESSIONS")
}

func writeSelectors() error {
	var expressions []string
	if err := json.NewDecoder(os.Stdin).Decode(&expressions); err != nil {
		return err
	}
	found := make([][]selector, len(expressions))
	for i, text := range expressions {
		expression, err := promQL.ParseExpr(text)
		if err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
		found[i] = selectorsOf(expression, nil)
	}
	return json.NewEncoder(os.Stdout).Encode(found)
}
