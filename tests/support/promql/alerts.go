package main

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/template"
)

// An alert as a test expects it, and as a rule makes it.
type alert struct {
	Labels      map[string]string `yaml:"exp_labels"`
	Annotations map[string]string `yaml:"exp_annotations"`
}

// A watch evaluates one alerting rule again and again. It keeps since when each alert is active; an
// alert fires once it has been active at every evaluation for the rule's `for`.
type watch struct {
	rule   rulefmt.Rule
	since  map[string]time.Time
	firing []alert
}

func (w *watch) evaluate(query template.QueryFunc, at time.Time) error {
	vector, err := query(context.Background(), w.rule.Expr, at)
	if err != nil {
		return fmt.Errorf("%s: %w", w.rule.Alert, err)
	}
	active := make(map[string]time.Time, len(vector))
	w.firing = nil
	for _, sample := range vector {
		found, err := w.made(sample, query, at)
		if err != nil {
			return fmt.Errorf("%s: %w", w.rule.Alert, err)
		}
		id := labels.FromMap(found.Labels).String()
		if _, twice := active[id]; twice {
			return fmt.Errorf("%s: two samples have the labels %s", w.rule.Alert, id)
		}
		active[id] = at
		if since, known := w.since[id]; known {
			active[id] = since
		}
		if at.Sub(active[id]) >= time.Duration(w.rule.For) {
			w.firing = append(w.firing, found)
		}
	}
	w.since = active
	return nil
}

func (w *watch) made(sample promql.Sample, query template.QueryFunc, at time.Time) (alert, error) {
	of := sample.Metric.Map()
	own, err := expanded(w.rule.Labels, of, sample, query, at)
	if err != nil {
		return alert{}, err
	}
	annotations, err := expanded(w.rule.Annotations, of, sample, query, at)
	delete(of, labels.MetricName)
	maps.Copy(of, own)
	of[labels.AlertName] = w.rule.Alert
	return alert{of, annotations}, err
}

func expanded(
	texts, of map[string]string, sample promql.Sample, query template.QueryFunc, at time.Time,
) (map[string]string, error) {
	data := template.AlertTemplateData(of, nil, "", sample)
	variables := "{{$labels := .Labels}}{{$externalLabels := .ExternalLabels}}{{$value := .Value}}"
	results := make(map[string]string, len(texts))
	for name, text := range texts {
		expander := template.NewTemplateExpander(
			context.Background(), variables+text, "__alert_"+name, data, model.TimeFromUnixNano(at.UnixNano()),
			query, nil, []string{"missingkey=error"},
		)
		result, err := expander.Expand()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		results[name] = strings.TrimSpace(result)
	}
	return results, nil
}
