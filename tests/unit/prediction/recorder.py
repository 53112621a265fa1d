"""A predictor that writes down what it is told and asked, in order."""

from brtheory.prediction.survival import SurvivalPredictor


class Recorder(SurvivalPredictor):
    """Writes down every call and every answer."""

    def __init__(self):
        super().__init__(refit_every=4)
        self.calls = []

    def observe_admitted(self, request):
        super().observe_admitted(request)
        self.calls.append(("admitted", request.id))

    def observe_finished(self, request, *, output_tokens):
        super().observe_finished(request, output_tokens=output_tokens)
        self.calls.append(("finished", request.id, output_tokens))

    def refit(self, running):
        super().refit(running)
        self.calls.append(("refit", sorted((r.id, age) for r, age in running)))

    def predict(self, request, *, age, horizon):
        answer = super().predict(request, age=age, horizon=horizon)
        self.calls.append(("predict", request.id, age, answer))
        return answer
