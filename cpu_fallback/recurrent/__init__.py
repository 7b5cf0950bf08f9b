"""Steps of LSTM and GRU."""
