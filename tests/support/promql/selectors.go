package main

import (
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// A selector names a metric, the values that it wants of labels, and all labels that the expression
// takes from what it selects: also those of aggregations and of matches around it.
type selector struct {
	Metric   string    `json:"metric"`
	Matchers []matcher `json:"matchers"`
	Labels   []string  `json:"labels"`
}

type matcher struct {
	Label string `json:"label"`
	Op    string `json:"op"`
	Value string `json:"value"`
}

// selectorsOf returns the selectors in a part of an expression; around are the labels that what
// surrounds this part takes from its result.
func selectorsOf(node parser.Node, around []string) []selector {
	switch part := node.(type) {
	case *parser.VectorSelector:
		return []selector{selectorOf(part, around)}
	case *parser.AggregateExpr:
		around = join(around, part.Grouping)
	case *parser.BinaryExpr:
		if part.VectorMatching != nil {
			around = join(around, part.VectorMatching.MatchingLabels)
		}
	}
	var found []selector
	for child := range parser.ChildrenIter(node) {
		found = append(found, selectorsOf(child, around)...)
	}
	return found
}

func selectorOf(part *parser.VectorSelector, around []string) selector {
	found := selector{Metric: part.Name, Matchers: []matcher{}, Labels: join([]string{}, around)}
	for _, each := range part.LabelMatchers {
		if each.Name == labels.MetricName {
			continue
		}
		found.Matchers = append(found.Matchers, matcher{each.Name, each.Type.String(), each.Value})
		found.Labels = append(found.Labels, each.Name)
	}
	return found
}

func join(before, more []string) []string {
	return append(append([]string{}, before...), more...)
}
